//! Rows as a Parquet file, written a group of rows at a time so that memory stays flat.

use std::{io::Write, sync::Arc};

use parquet::{
    basic::{Compression, ConvertedType, Repetition, Type as Physical},
    column::writer::ColumnWriter,
    data_type::ByteArray,
    file::{
        properties::WriterProperties,
        writer::{SerializedColumnWriter, SerializedFileWriter},
    },
    schema::types::{Type, TypePtr},
};
use proto::v1::TraceRow;

use super::export::Sink;
use crate::traces::columns::{COLUMNS, Column, Value};

/// Rows of a group: some megabytes in memory.
const GROUP: usize = 8_192;

/// A writer of columns.
pub(super) struct Columns<W: Write + Send> {
    file: SerializedFileWriter<W>,
    rows: Vec<TraceRow>,
}

impl<W: Write + Send> Columns<W> {
    pub(super) fn new(out: W) -> anyhow::Result<Self> {
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_created_by(format!("cadence {}", env!("CARGO_PKG_VERSION")))
            .build();
        let file = SerializedFileWriter::new(out, schema()?, Arc::new(properties))?;
        Ok(Self { file, rows: Vec::new() })
    }

    fn write_group(&mut self) -> anyhow::Result<()> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let mut group = self.file.next_row_group()?;
        for column in COLUMNS {
            let writer = group.next_column()?;
            let writer = writer.expect("the schema has a column for each of ours");
            write_column(writer, column, &self.rows)?;
        }
        group.close()?;
        self.rows.clear();
        Ok(())
    }
}

impl<W: Write + Send> Sink for Columns<W> {
    fn take(&mut self, row: &TraceRow) -> anyhow::Result<()> {
        self.rows.push(row.clone());
        if self.rows.len() < GROUP { Ok(()) } else { self.write_group() }
    }

    fn finish(mut self: Box<Self>) -> anyhow::Result<()> {
        self.write_group()?;
        let mut out = self.file.into_inner()?;
        Ok(out.flush()?)
    }
}

fn schema() -> anyhow::Result<TypePtr> {
    let empty = TraceRow::default();
    let field = |column: &Column| {
        let (physical, converted) = match (column.get)(&empty) {
            Value::Count(_) => (Physical::INT64, ConvertedType::UINT_64),
            Value::Signed(_) => (Physical::INT64, ConvertedType::INT_64),
            Value::Real(_) => (Physical::DOUBLE, ConvertedType::NONE),
            Value::Flag(_) => (Physical::BOOLEAN, ConvertedType::NONE),
            Value::Text(_) => (Physical::BYTE_ARRAY, ConvertedType::UTF8),
        };
        Type::primitive_type_builder(column.name, physical)
            .with_converted_type(converted)
            .with_repetition(Repetition::OPTIONAL)
            .build()
            .map(Arc::new)
    };
    let fields = COLUMNS.iter().map(field).collect::<Result<Vec<_>, _>>()?;
    Ok(Arc::new(Type::group_type_builder("trace").with_fields(fields).build()?))
}

/// What there is of a column in these rows: definition levels say where there is nothing.
struct Values<T> {
    values: Vec<T>,
    levels: Vec<i16>,
}

impl<T> Values<T> {
    fn of(values: impl Iterator<Item = Option<T>>) -> Self {
        let mut all = Self { values: Vec::new(), levels: Vec::new() };
        for value in values {
            all.levels.push(i16::from(value.is_some()));
            all.values.extend(value);
        }
        all
    }
}

fn write_column(
    mut writer: SerializedColumnWriter<'_>,
    column: &Column,
    rows: &[TraceRow],
) -> anyhow::Result<()> {
    let values = rows.iter().map(|row| (column.get)(row));
    match writer.untyped() {
        ColumnWriter::Int64ColumnWriter(typed) => {
            let all = Values::of(values.map(integer));
            typed.write_batch(&all.values, Some(&all.levels), None)?;
        }
        ColumnWriter::DoubleColumnWriter(typed) => {
            let all = Values::of(values.map(real));
            typed.write_batch(&all.values, Some(&all.levels), None)?;
        }
        ColumnWriter::BoolColumnWriter(typed) => {
            let all = Values::of(values.map(flag));
            typed.write_batch(&all.values, Some(&all.levels), None)?;
        }
        ColumnWriter::ByteArrayColumnWriter(typed) => {
            let all = Values::of(values.map(text));
            typed.write_batch(&all.values, Some(&all.levels), None)?;
        }
        ColumnWriter::Int32ColumnWriter(_)
        | ColumnWriter::Int96ColumnWriter(_)
        | ColumnWriter::FloatColumnWriter(_)
        | ColumnWriter::FixedLenByteArrayColumnWriter(_) => {
            unreachable!("the schema has no such column")
        }
    }
    Ok(writer.close()?)
}

fn integer(value: Value<'_>) -> Option<i64> {
    match value {
        // The schema says that these bits are unsigned.
        Value::Count(value) => value.map(u64::cast_signed),
        Value::Signed(value) => value,
        Value::Real(_) | Value::Flag(_) | Value::Text(_) => None,
    }
}

fn real(value: Value<'_>) -> Option<f64> {
    match value {
        Value::Real(value) => value,
        Value::Count(_) | Value::Signed(_) | Value::Flag(_) | Value::Text(_) => None,
    }
}

fn flag(value: Value<'_>) -> Option<bool> {
    match value {
        Value::Flag(value) => Some(value),
        Value::Count(_) | Value::Signed(_) | Value::Real(_) | Value::Text(_) => None,
    }
}

fn text(value: Value<'_>) -> Option<ByteArray> {
    match value {
        Value::Text(value) => value.map(ByteArray::from),
        Value::Count(_) | Value::Signed(_) | Value::Real(_) | Value::Flag(_) => None,
    }
}
