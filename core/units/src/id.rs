//! Ids.

use std::{fmt, str::FromStr};

/// The id of a request in every process: made by the gateway, unique, never the client's. Written as
/// 32 lowercase hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u128);

/// A backend sequence: the stream that a running request owns. Below the engine's slot count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub u32);

/// Who keeps a prefix's KV after the sequence that computed it: a sequence of the backend's, or a
/// saved state. Below the cache's count of owners.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner(pub u32);

/// An id of the model's vocabulary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u32);

/// The text is not 32 hexadecimal digits, with or without the hyphens of a UUID.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a request id is 32 hexadecimal digits")]
pub struct ParseRequestIdError;

impl fmt::Display for RequestId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:032x}", self.0)
    }
}

impl fmt::Debug for RequestId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

impl FromStr for RequestId {
    type Err = ParseRequestIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut digits = 0;
        let mut value = 0;
        for (at, byte) in text.bytes().enumerate() {
            if byte == b'-' && text.len() == 36 && matches!(at, 8 | 13 | 18 | 23) {
                continue;
            }
            let digit = char::from(byte).to_digit(16).ok_or(ParseRequestIdError)?;
            value = value << 4 | u128::from(digit);
            digits += 1;
        }
        if digits == 32 { Ok(Self(value)) } else { Err(ParseRequestIdError) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_32_digits_are_an_id() {
        let parse = str::parse::<RequestId>;
        let id = RequestId(0x0198_0000_0000_7000_8000_0000_0000_00ff);
        assert_eq!(parse("01980000-0000-7000-8000-0000000000ff"), Ok(id));
        for bad in
            ["", "ff", "+1980000000070008000000000000ff0", "0198-00000000-7000-80000000000000ff"]
        {
            assert_eq!(parse(bad), Err(ParseRequestIdError), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(value: u128) {
            prop_assert_eq!(RequestId(value).to_string().parse(), Ok(RequestId(value)));
        }
    }
}
