//! Rows as lines of JSON: every column in every line, `null` where there is no value.

use std::io::Write;

use proto::v1::TraceRow;
use serde_json::{Map, Value as Json};

use super::export::Sink;
use crate::traces::columns::{COLUMNS, Value};

/// A writer of lines.
pub(super) struct Lines<W> {
    out: W,
}

impl<W: Write> Lines<W> {
    pub(super) fn new(out: W) -> Self {
        Self { out }
    }
}

impl<W: Write> Sink for Lines<W> {
    fn take(&mut self, row: &TraceRow) -> anyhow::Result<()> {
        serde_json::to_writer(&mut self.out, &object(row))?;
        Ok(self.out.write_all(b"\n")?)
    }

    fn finish(mut self: Box<Self>) -> anyhow::Result<()> {
        Ok(self.out.flush()?)
    }
}

/// A row as an object.
pub(super) fn object(row: &TraceRow) -> Map<String, Json> {
    let pair = |column: &crate::traces::columns::Column| {
        let value = match (column.get)(row) {
            Value::Count(value) => value.into(),
            Value::Signed(value) => value.into(),
            Value::Real(value) => value.into(),
            Value::Flag(value) => value.into(),
            Value::Text(value) => value.into(),
        };
        (column.name.to_owned(), value)
    };
    COLUMNS.iter().map(pair).collect()
}
