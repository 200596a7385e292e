//! JSON whose number of values is bounded, as its bytes and its depth are.
//!
//! A value takes many times its text in memory: without this bound, a body of a few megabytes of `0,`
//! would take hundreds.

use std::{cell::Cell, fmt};

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// A request may hold at most this many JSON values.
const VALUES_MAX: u32 = 100_000;

/// Reads one JSON document.
///
/// # Errors
/// Not JSON, too deep, or more than [`VALUES_MAX`] values.
pub(super) fn parse(text: &[u8]) -> Result<Value, serde_json::Error> {
    let mut reader = serde_json::Deserializer::from_slice(text);
    let value = Bounded(&Cell::new(VALUES_MAX)).deserialize(&mut reader)?;
    reader.end()?;
    Ok(value)
}

/// A value and how many more there may be.
#[derive(Clone, Copy)]
struct Bounded<'a>(&'a Cell<u32>);

impl<'de> DeserializeSeed<'de> for Bounded<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        let Some(left) = self.0.get().checked_sub(1) else {
            return Err(D::Error::custom(format_args!("more than {VALUES_MAX} values")));
        };
        self.0.set(left);
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Bounded<'_> {
    type Value = Value;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Value, E> {
        Ok(flag.into())
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Value, E> {
        Number::from_f64(number).map(Value::Number).ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            list.push(item);
        }
        Ok(list.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while let Some(name) = entries.next_key::<String>()? {
            members.insert(name, entries.next_value_seed(self)?);
        }
        Ok(members.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_reads_what_the_plain_reader_reads() {
        let text = br#" {"a":[null,true,-1,18446744073709551615,1.5,"x\n"],"b":{"c":{}},"a":2} "#;
        let plain: Value = serde_json::from_slice(text).expect("JSON");
        assert_eq!(parse(text).expect("JSON"), plain);
    }

    #[test]
    fn values_are_counted_at_every_depth() {
        let of = |count: u32| format!("[{}0]", "0,".repeat(count as usize - 2));
        assert!(parse(of(VALUES_MAX).as_bytes()).is_ok());
        let error = parse(of(VALUES_MAX + 1).as_bytes()).expect_err("too many");
        assert!(error.to_string().starts_with("more than 100000 values"), "{error}");
        let objects = format!("[{}0]", "{\"a\":[{}]},".repeat(40_000));
        assert!(parse(objects.as_bytes()).is_err());
    }

    #[test]
    fn what_is_not_json_is_refused() {
        let deep = "[".repeat(1 << 20);
        for text in ["", "{:", "[1,", "{} {}", "NaN", "1e999", "\"\\ud83d\"", "\u{feff}{}", &deep] {
            assert!(parse(text.as_bytes()).is_err(), "{text:.20} was taken");
        }
        assert!(parse(b"\"\xff\"").is_err());
    }
}
