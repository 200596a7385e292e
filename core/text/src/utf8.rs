//! Bytes to text, piece by piece.

use std::str;

/// Decodes UTF-8 that arrives in pieces.
///
/// An incomplete character is held until its rest comes, and no more than that. What can become no
/// character turns into U+FFFD, one for each maximal wrong part, as in a decoding of the whole. A
/// character that is still incomplete when the stream ends was never written, and is left out.
#[derive(Clone, Debug, Default)]
pub struct Utf8Stream {
    /// The beginning of a character: at most three bytes.
    held: Vec<u8>,
}

impl Utf8Stream {
    /// Appends to `out` the text that `bytes` completes.
    pub fn push(&mut self, bytes: &[u8], out: &mut String) {
        if self.held.is_empty() {
            let rest = decode(bytes, out);
            self.held.extend_from_slice(rest);
        } else {
            self.held.extend_from_slice(bytes);
            let rest = decode(&self.held, out).len();
            self.held.drain(..self.held.len() - rest);
        }
    }

    /// Whether no character is incomplete.
    pub(crate) fn is_between_characters(&self) -> bool {
        self.held.is_empty()
    }
}

/// Decodes all but an incomplete character at the end, which it returns.
fn decode<'a>(bytes: &'a [u8], out: &mut String) -> &'a [u8] {
    let mut rest = bytes;
    loop {
        let error = match str::from_utf8(rest) {
            Ok(text) => {
                out.push_str(text);
                return &[];
            }
            Err(error) => error,
        };
        let (valid, wrong) = rest.split_at(error.valid_up_to());
        out.push_str(str::from_utf8(valid).expect("checked up to here"));
        let Some(length) = error.error_len() else { return wrong };
        out.push(char::REPLACEMENT_CHARACTER);
        rest = &wrong[length..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decode_in(pieces: &[&[u8]]) -> Vec<String> {
        let mut stream = Utf8Stream::default();
        let push = |piece: &&[u8]| {
            let mut out = String::new();
            stream.push(piece, &mut out);
            out
        };
        pieces.iter().map(push).collect()
    }

    #[test]
    fn a_character_waits_for_its_last_byte() {
        let family = "👩‍👩‍👧".as_bytes();
        assert_eq!(
            decode_in(&[&family[..3], &family[3..6], &family[6..]]),
            ["", "👩", "\u{200d}👩\u{200d}👧"]
        );
    }

    #[test]
    fn wrong_bytes_are_told_at_once() {
        assert_eq!(
            decode_in(&[b"a\xff", b"b", b"\xe2\x82", b"c"]),
            ["a\u{fffd}", "b", "", "\u{fffd}c"]
        );
    }

    proptest! {
        #[test]
        fn pieces_decode_like_the_whole(
            bytes in prop_oneof![
                any::<Vec<u8>>(),
                any::<String>().prop_map(String::into_bytes),
                prop::collection::vec(prop::sample::select(b"a\xe2\x82\xac\xf0\x9f\x91".to_vec()), 0..40),
            ],
            size in 1_usize..5,
        ) {
            let pieces: Vec<_> = bytes.chunks(size).collect();
            let tail = bytes.utf8_chunks().last().map_or(&[][..], |chunk| chunk.invalid());
            let incomplete = str::from_utf8(tail).is_err_and(|error| error.error_len().is_none());
            let end = bytes.len() - if incomplete { tail.len() } else { 0 };
            let complete = String::from_utf8_lossy(&bytes[..end]);
            prop_assert_eq!(decode_in(&pieces).concat(), complete);
        }
    }
}
