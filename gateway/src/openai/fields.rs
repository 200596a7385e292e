//! Reads members of a JSON object, one by one, and names the one that is wrong.
//!
//! `null` is the same as absent, everywhere. Members that nobody takes are ignored.

use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use super::json;
use crate::error::ApiError;

/// The members of one object that have not been read yet.
#[derive(Debug)]
pub(super) struct Fields {
    members: Map<String, Value>,
    /// What stands before a member's name in an error: `messages[1].`, or nothing at the top.
    prefix: String,
}

/// A kind of JSON value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Bool,
    Text,
    List,
    Object,
}

impl Kind {
    fn noun(self) -> &'static str {
        match self {
            Self::Bool => "true or false",
            Self::Text => "a string",
            Self::List => "an array",
            Self::Object => "an object",
        }
    }

    fn fits(self, value: &Value) -> bool {
        match self {
            Self::Bool => value.is_boolean(),
            Self::Text => value.is_string(),
            Self::List => value.is_array(),
            Self::Object => value.is_object(),
        }
    }
}

impl Fields {
    /// The members of the request itself.
    ///
    /// # Errors
    /// Not JSON, or not an object.
    pub(super) fn parse(body: &[u8]) -> Result<Self, ApiError> {
        let unnamed = |message| ApiError::Invalid { message, param: None, code: None };
        match json::parse(body) {
            Ok(Value::Object(members)) => Ok(Self { members, prefix: String::new() }),
            Ok(other) => {
                Err(unnamed(format!("the body must be a JSON object, not {}", noun(&other))))
            }
            Err(error) => Err(unnamed(format!("the body is not valid JSON: {error}"))),
        }
    }

    /// The members of `value`, which stands at `place`, for example `messages[1]`.
    ///
    /// # Errors
    /// Not an object.
    pub(super) fn of(value: Value, place: &str) -> Result<Self, ApiError> {
        if let Value::Object(members) = value {
            return Ok(Self { members, prefix: format!("{place}.") });
        }
        Err(wrong(place, Kind::Object.noun(), &value))
    }

    /// Where the member `name` stands.
    pub(super) fn place(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// An error about the member `name`: what it must be.
    pub(super) fn must(&self, name: &str, be: &str) -> ApiError {
        let place = self.place(name);
        let message = format!("{place} must {be}");
        ApiError::invalid(place, message)
    }

    /// Takes the member `name`, of any kind.
    pub(super) fn take(&mut self, name: &str) -> Option<Value> {
        self.members.swap_remove(name).filter(|value| !value.is_null())
    }

    /// Takes the member `name` if it is of one `kind`.
    ///
    /// # Errors
    /// It is of another.
    pub(super) fn take_kind(&mut self, name: &str, kind: Kind) -> Result<Option<Value>, ApiError> {
        match self.take(name) {
            Some(value) if !kind.fits(&value) => Err(wrong(&self.place(name), kind.noun(), &value)),
            fitting => Ok(fitting),
        }
    }

    pub(super) fn flag(&mut self, name: &str) -> Result<Option<bool>, ApiError> {
        Ok(self.take_kind(name, Kind::Bool)?.and_then(|value| value.as_bool()))
    }

    pub(super) fn text(&mut self, name: &str) -> Result<Option<String>, ApiError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(wrong(&self.place(name), Kind::Text.noun(), &other)),
        }
    }

    pub(super) fn list(&mut self, name: &str) -> Result<Option<Vec<Value>>, ApiError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Array(items)) => Ok(Some(items)),
            Some(other) => Err(wrong(&self.place(name), Kind::List.noun(), &other)),
        }
    }

    pub(super) fn object(&mut self, name: &str) -> Result<Option<Self>, ApiError> {
        let place = self.place(name);
        self.take(name).map(|value| Self::of(value, &place)).transpose()
    }

    /// The members of an object, as they are.
    pub(super) fn members(&mut self, name: &str) -> Result<Option<Map<String, Value>>, ApiError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Object(members)) => Ok(Some(members)),
            Some(other) => Err(wrong(&self.place(name), Kind::Object.noun(), &other)),
        }
    }

    /// A whole number from `range`.
    ///
    /// # Errors
    /// Another kind of value, a fraction (`1.0` included), out of range.
    pub(super) fn integer(
        &mut self,
        name: &str,
        range: RangeInclusive<i64>,
    ) -> Result<Option<i64>, ApiError> {
        let Some(value) = self.take(name) else { return Ok(None) };
        let Value::Number(number) = &value else {
            return Err(wrong(&self.place(name), "an integer", &value));
        };
        match number.as_i64() {
            Some(whole) if range.contains(&whole) => Ok(Some(whole)),
            _ => {
                let (min, max) = range.into_inner();
                Err(self.must(name, &format!("be an integer from {min} to {max}, not {number}")))
            }
        }
    }

    /// A whole number from 1 on. What is too large for 64 bits saturates.
    ///
    /// # Errors
    /// Another kind of value, a fraction (`1.0` included), less than 1.
    pub(super) fn count(&mut self, name: &str) -> Result<Option<u64>, ApiError> {
        let Some(value) = self.take(name) else { return Ok(None) };
        let Value::Number(number) = &value else {
            return Err(wrong(&self.place(name), "an integer", &value));
        };
        // An integer that does not fit into 64 bits has been read as a float.
        let beyond = number.is_f64() && number.as_f64().is_some_and(|huge| huge >= u64::MAX as f64);
        match number.as_u64() {
            Some(count) if count >= 1 => Ok(Some(count)),
            None if beyond => Ok(Some(u64::MAX)),
            _ => Err(self.must(name, &format!("be an integer of at least 1, not {number}"))),
        }
    }

    /// A number from `range`.
    ///
    /// # Errors
    /// Another kind of value, out of range.
    pub(super) fn number(
        &mut self,
        name: &str,
        range: RangeInclusive<f64>,
    ) -> Result<Option<f64>, ApiError> {
        let Some(value) = self.take(name) else { return Ok(None) };
        match value.as_f64() {
            Some(number) if range.contains(&number) => Ok(Some(number)),
            Some(number) => {
                let (min, max) = range.into_inner();
                Err(self.must(name, &format!("be from {min} to {max}, not {number}")))
            }
            None => Err(wrong(&self.place(name), "a number", &value)),
        }
    }
}

/// The value at `place` is not of the kind that it must be.
pub(super) fn wrong(place: &str, wanted: &str, value: &Value) -> ApiError {
    ApiError::invalid(place, format!("{place} must be {wanted}, not {}", noun(value)))
}

fn noun(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => Kind::Text.noun(),
        Value::Array(_) => Kind::List.noun(),
        Value::Object(_) => Kind::Object.noun(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(json: &str) -> Fields {
        Fields::parse(json.as_bytes()).expect("an object")
    }

    #[test]
    fn null_is_absent() {
        let mut fields = fields(r#"{"a":null,"b":null,"c":null}"#);
        assert_eq!(fields.flag("a"), Ok(None));
        assert_eq!(fields.count("b"), Ok(None));
        assert_eq!(fields.text("c"), Ok(None));
        assert_eq!(fields.text("d"), Ok(None));
    }

    #[test]
    fn counts_saturate_and_take_nothing_below_one() {
        let count = |json: &str| fields(&format!("{{\"n\":{json}}}")).count("n");
        assert_eq!(count("1"), Ok(Some(1)));
        assert_eq!(count("9223372036854775808"), Ok(Some(1 << 63)));
        assert_eq!(count("18446744073709551616"), Ok(Some(u64::MAX)));
        for bad in ["0", "-1", "0.5", "1.0", "\"1\"", "true", "[]", "{}", "-1e30"] {
            assert!(count(bad).is_err(), "{bad} was taken");
        }
    }

    #[test]
    fn errors_name_the_place() {
        let value = serde_json::json!({"role": 5});
        let mut message = Fields::of(value, "messages[1]").expect("an object");
        let error = message.text("role").expect_err("a number");
        assert_eq!(
            error,
            ApiError::invalid(
                "messages[1].role",
                "messages[1].role must be a string, not a number"
            )
        );
    }

    #[test]
    fn what_is_not_an_object_is_refused() {
        let bad = ["", "{:", "[]", "\"x\"", "5", "null", "true"];
        for body in bad {
            assert!(Fields::parse(body.as_bytes()).is_err(), "{body:.20} was taken");
        }
    }
}
