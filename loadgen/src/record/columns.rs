//! A row as named columns: the one place that says what a file holds.

use super::Row;
use crate::wire::Class;

/// A value of a column. A column has the same kind in every row.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Count(Option<u64>),
    Real(Option<f64>),
    Flag(bool),
    Text(Option<String>),
    Counts(Vec<u32>),
}

/// One column: how a row gives its value and takes it.
pub(super) struct Column {
    pub(super) name: &'static str,
    pub(super) get: fn(&Row) -> Value,
    pub(super) set: fn(&mut Row, Value),
}

use Value::{Count, Counts, Flag, Real, Text};

/// Tables of columns whose name is the field's.
macro_rules! columns {
    ($($field:ident: $kind:ident;)*) => {
        &[$(Column {
            name: stringify!($field),
            get: |row| $kind::get(&row.$field),
            set: |row, value| $kind::set(&mut row.$field, value),
        },)*]
    };
}

/// All of them, in order.
pub(super) const COLUMNS: &[Column] = columns! {
    index: whole;
    warmup: flag;
    intended_us: whole;
    started_us: whole;
    sent_us: maybe;
    head_us: maybe;
    first_token_us: maybe;
    last_token_us: maybe;
    end_us: whole;
    attempts: whole;
    status: maybe;
    class: class;
    detail: text;
    asked_prompt_tokens: whole;
    asked_shared_tokens: whole;
    max_tokens: whole;
    prompt_tokens: maybe;
    completion_tokens: maybe;
    cached_tokens: maybe;
    chunks: whole;
    finish_reason: text;
    tier: text;
    bound_ms: real;
    confidence: real;
    retry_after_ms: real;
    gaps_us: counts;
};

/// Each kind of field is a module, for a macro can name it.
mod whole {
    use super::{Count, Value};

    pub(super) fn get<T: Copy + Into<u64>>(field: &T) -> Value {
        Count(Some((*field).into()))
    }

    pub(super) fn set<T: TryFrom<u64>>(field: &mut T, value: Value) {
        if let Count(Some(value)) = value {
            *field = T::try_from(value).unwrap_or_else(|_| unfit(value));
        }
    }

    /// A number of another program's file that has no place here is as good as none.
    fn unfit<T: TryFrom<u64>>(_: u64) -> T {
        T::try_from(0).unwrap_or_else(|_| unreachable!("every count holds 0"))
    }
}

mod maybe {
    use super::{Count, Value};

    pub(super) fn get<T: Copy + Into<u64>>(field: &Option<T>) -> Value {
        Count(field.map(Into::into))
    }

    pub(super) fn set<T: TryFrom<u64>>(field: &mut Option<T>, value: Value) {
        if let Count(value) = value {
            *field = value.and_then(|value| T::try_from(value).ok());
        }
    }
}

mod real {
    use super::{Real, Value};

    pub(super) fn get(field: &Option<f64>) -> Value {
        Real(*field)
    }

    pub(super) fn set(field: &mut Option<f64>, value: Value) {
        if let Real(value) = value {
            *field = value;
        }
    }
}

mod flag {
    use super::{Flag, Value};

    pub(super) fn get(field: &bool) -> Value {
        Flag(*field)
    }

    pub(super) fn set(field: &mut bool, value: Value) {
        if let Flag(value) = value {
            *field = value;
        }
    }
}

mod text {
    use super::{Text, Value};

    pub(super) fn get(field: &Option<String>) -> Value {
        Text(field.clone())
    }

    pub(super) fn set(field: &mut Option<String>, value: Value) {
        if let Text(value) = value {
            *field = value;
        }
    }
}

mod class {
    use super::{Class, Text, Value};

    pub(super) fn get(field: &Class) -> Value {
        Text(Some(field.name().into()))
    }

    pub(super) fn set(field: &mut Class, value: Value) {
        if let Text(Some(name)) = value {
            // A class that a newer program made up is at least no success.
            *field = Class::from_name(&name).unwrap_or(Class::Protocol);
        }
    }
}

mod counts {
    use super::{Counts, Value};

    pub(super) fn get(field: &[u32]) -> Value {
        Counts(field.to_vec())
    }

    pub(super) fn set(field: &mut Vec<u32>, value: Value) {
        if let Counts(value) = value {
            *field = value;
        }
    }
}

impl Row {
    /// A row about which nothing is known.
    pub(super) const fn blank() -> Self {
        Self {
            index: 0,
            warmup: false,
            intended_us: 0,
            started_us: 0,
            sent_us: None,
            head_us: None,
            first_token_us: None,
            last_token_us: None,
            end_us: 0,
            attempts: 0,
            status: None,
            class: Class::Protocol,
            detail: None,
            asked_prompt_tokens: 0,
            asked_shared_tokens: 0,
            max_tokens: 0,
            prompt_tokens: None,
            completion_tokens: None,
            cached_tokens: None,
            chunks: 0,
            finish_reason: None,
            tier: None,
            bound_ms: None,
            confidence: None,
            retry_after_ms: None,
            gaps_us: Vec::new(),
        }
    }
}
