//! A run as a Parquet file.

use std::{
    fs::{self, File},
    io::{BufWriter, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::Context as _;
use parquet::{
    basic::{Compression, ConvertedType, Repetition, Type as Physical},
    column::writer::ColumnWriter,
    data_type::ByteArray,
    file::{
        metadata::KeyValue,
        properties::WriterProperties,
        writer::{SerializedColumnWriter, SerializedFileWriter},
    },
    schema::types::{Type, TypePtr},
};

use super::{
    Row, Run,
    columns::{COLUMNS, Column, Value},
};

/// Rows of a group.
const GROUP: usize = 8_192;
/// The name of the provenance among a file's metadata.
pub(super) const PROVENANCE: &str = "loadgen";

/// Where the journal of `out` is.
pub(crate) fn journal_path(out: &Path) -> PathBuf {
    beside(out, ".journal")
}

/// Writes a run under its name, whole or not at all.
///
/// # Errors
/// The disk refuses it.
pub(crate) fn store(run: &Run, out: &Path) -> anyhow::Result<()> {
    let part = beside(out, ".part");
    let written = write(run, &part).and_then(|()| Ok(fs::rename(&part, out)?));
    if written.is_err() {
        // Half a file helps nobody and takes the room that the rest may need.
        let _ = fs::remove_file(&part);
    }
    written.with_context(|| format!("cannot write {}", out.display()))
}

fn beside(out: &Path, end: &str) -> PathBuf {
    let mut name = out.as_os_str().to_owned();
    name.push(end);
    name.into()
}

fn write(run: &Run, path: &Path) -> anyhow::Result<()> {
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_created_by(format!("loadgen {}", env!("CARGO_PKG_VERSION")))
        .build();
    let out = BufWriter::new(File::create(path)?);
    let mut file = SerializedFileWriter::new(out, schema()?, Arc::new(properties))?;
    let provenance = serde_json::to_string(&run.provenance)?;
    file.append_key_value_metadata(KeyValue::new(PROVENANCE.to_owned(), provenance));
    for rows in run.rows.chunks(GROUP) {
        let mut group = file.next_row_group()?;
        for column in COLUMNS {
            let writer = group.next_column()?.expect("the schema has a column for each of ours");
            write_column(writer, column, rows)?;
        }
        group.close()?;
    }
    let mut out = file.into_inner()?;
    out.flush()?;
    out.into_inner().map_err(|error| error.into_error())?.sync_all()?;
    Ok(())
}

fn schema() -> anyhow::Result<TypePtr> {
    let blank = Row::blank();
    let field = |column: &Column| {
        let (physical, converted, repetition) = match (column.get)(&blank) {
            Value::Count(_) => (Physical::INT64, ConvertedType::UINT_64, Repetition::OPTIONAL),
            Value::Real(_) => (Physical::DOUBLE, ConvertedType::NONE, Repetition::OPTIONAL),
            Value::Flag(_) => (Physical::BOOLEAN, ConvertedType::NONE, Repetition::OPTIONAL),
            Value::Text(_) => (Physical::BYTE_ARRAY, ConvertedType::UTF8, Repetition::OPTIONAL),
            Value::Counts(_) => (Physical::INT64, ConvertedType::UINT_64, Repetition::REPEATED),
        };
        Type::primitive_type_builder(column.name, physical)
            .with_converted_type(converted)
            .with_repetition(repetition)
            .build()
            .map(Arc::new)
    };
    let fields = COLUMNS.iter().map(field).collect::<Result<Vec<_>, _>>()?;
    Ok(Arc::new(Type::group_type_builder("request").with_fields(fields).build()?))
}

/// Values of a column, with the levels that say where there are none and where a row begins.
struct Values<T> {
    values: Vec<T>,
    defined: Vec<i16>,
    repeated: Vec<i16>,
}

impl<T> Values<T> {
    fn of(rows: impl Iterator<Item = Vec<T>>) -> Self {
        let mut all = Self { values: Vec::new(), defined: Vec::new(), repeated: Vec::new() };
        for row in rows {
            let levels = row.len().max(1);
            all.defined.extend((0..levels).map(|_| i16::from(!row.is_empty())));
            all.repeated.extend((0..levels).map(|at| i16::from(at > 0)));
            all.values.extend(row);
        }
        all
    }

    /// Absent where no row has more than one: the schema has no such levels then.
    fn repeated(&self, column: &Column) -> Option<&[i16]> {
        let repeats = matches!((column.get)(&Row::blank()), Value::Counts(_));
        repeats.then_some(&*self.repeated)
    }
}

fn write_column(
    mut writer: SerializedColumnWriter<'_>,
    column: &Column,
    rows: &[Row],
) -> anyhow::Result<()> {
    let values = rows.iter().map(|row| (column.get)(row));
    match writer.untyped() {
        ColumnWriter::Int64ColumnWriter(typed) => {
            let all = Values::of(values.map(integers));
            typed.write_batch(&all.values, Some(&all.defined), all.repeated(column))?;
        }
        ColumnWriter::DoubleColumnWriter(typed) => {
            let all = Values::of(values.map(reals));
            typed.write_batch(&all.values, Some(&all.defined), None)?;
        }
        ColumnWriter::BoolColumnWriter(typed) => {
            let all = Values::of(values.map(flags));
            typed.write_batch(&all.values, Some(&all.defined), None)?;
        }
        ColumnWriter::ByteArrayColumnWriter(typed) => {
            let all = Values::of(values.map(texts));
            typed.write_batch(&all.values, Some(&all.defined), None)?;
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

fn integers(value: Value) -> Vec<i64> {
    match value {
        // The schema says that these bits are unsigned.
        Value::Count(value) => value.map(u64::cast_signed).into_iter().collect(),
        Value::Counts(values) => values.into_iter().map(i64::from).collect(),
        Value::Real(_) | Value::Flag(_) | Value::Text(_) => Vec::new(),
    }
}

fn reals(value: Value) -> Vec<f64> {
    match value {
        Value::Real(value) => value.into_iter().collect(),
        Value::Count(_) | Value::Counts(_) | Value::Flag(_) | Value::Text(_) => Vec::new(),
    }
}

fn flags(value: Value) -> Vec<bool> {
    match value {
        Value::Flag(value) => vec![value],
        Value::Count(_) | Value::Counts(_) | Value::Real(_) | Value::Text(_) => Vec::new(),
    }
}

fn texts(value: Value) -> Vec<ByteArray> {
    match value {
        Value::Text(value) => value.map(|text| ByteArray::from(&*text)).into_iter().collect(),
        Value::Count(_) | Value::Counts(_) | Value::Real(_) | Value::Flag(_) => Vec::new(),
    }
}
