//! Reading a run back.

use std::{fs::File, path::Path};

use anyhow::Context as _;
use parquet::{
    file::reader::{FileReader as _, SerializedFileReader},
    record::{Field, List, Row as Fields},
};

use super::{
    Provenance, Row, Run,
    columns::{COLUMNS, Value},
    store::PROVENANCE,
};

/// Reads a Parquet file of a run. Columns that it does not have stay empty.
///
/// # Errors
/// It cannot be read, or is not of this program.
pub(crate) fn load(path: &Path) -> anyhow::Result<Run> {
    read(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Reads where a run comes from, without its rows.
///
/// # Errors
/// As [`load`].
pub(crate) fn provenance(path: &Path) -> anyhow::Result<Provenance> {
    open(path).map(|(_, from)| from).with_context(|| format!("cannot read {}", path.display()))
}

fn read(path: &Path) -> anyhow::Result<Run> {
    let (reader, provenance) = open(path)?;
    let rows = reader.get_row_iter(None)?.map(|fields| Ok(row(&fields?)));
    Ok(Run { provenance, rows: rows.collect::<anyhow::Result<_>>()? })
}

fn open(path: &Path) -> anyhow::Result<(SerializedFileReader<File>, Provenance)> {
    let reader = SerializedFileReader::new(File::open(path)?)?;
    let pairs = reader.metadata().file_metadata().key_value_metadata();
    let ours = pairs.into_iter().flatten().find(|pair| pair.key == PROVENANCE);
    let provenance = ours.and_then(|pair| pair.value.as_deref());
    let provenance = provenance.context("it is not a run of loadgen")?;
    let provenance = serde_json::from_str(provenance).context("its provenance makes no sense")?;
    Ok((reader, provenance))
}

fn row(fields: &Fields) -> Row {
    let mut row = Row::blank();
    for (name, field) in fields.get_column_iter() {
        if let Some(column) = COLUMNS.iter().find(|column| column.name == name)
            && let Some(value) = value(field)
        {
            (column.set)(&mut row, value);
        }
    }
    row
}

fn value(field: &Field) -> Option<Value> {
    match field {
        Field::ULong(value) => Some(Value::Count(Some(*value))),
        Field::Double(value) => Some(Value::Real(Some(*value))),
        Field::Bool(value) => Some(Value::Flag(*value)),
        Field::Str(value) => Some(Value::Text(Some(value.clone()))),
        Field::ListInternal(list) => Some(Value::Counts(counts(list))),
        // Nothing, and what other programs may have added.
        Field::Null
        | Field::Byte(_)
        | Field::Short(_)
        | Field::Int(_)
        | Field::Long(_)
        | Field::UByte(_)
        | Field::UShort(_)
        | Field::UInt(_)
        | Field::Float16(_)
        | Field::Float(_)
        | Field::Decimal(_)
        | Field::Bytes(_)
        | Field::Date(_)
        | Field::TimeMillis(_)
        | Field::TimeMicros(_)
        | Field::TimestampMillis(_)
        | Field::TimestampMicros(_)
        | Field::Group(_)
        | Field::MapInternal(_) => None,
    }
}

fn counts(list: &List) -> Vec<u32> {
    let count = |field: &Field| match value(field) {
        Some(Value::Count(Some(value))) => u32::try_from(value).ok(),
        Some(
            Value::Count(None)
            | Value::Real(_)
            | Value::Flag(_)
            | Value::Text(_)
            | Value::Counts(_),
        )
        | None => None,
    };
    list.elements().iter().filter_map(count).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        record::{examples::example, store},
        wire::Class,
    };

    #[test]
    fn what_is_written_is_read() {
        let full = Row {
            index: 1,
            warmup: true,
            sent_us: Some(u64::MAX),
            status: Some(200),
            class: Class::Ok,
            detail: Some("é".into()),
            bound_ms: Some(0.5),
            gaps_us: vec![1, 2, u32::MAX],
            ..Row::blank()
        };
        let run = example(vec![Row::blank(), full, Row { index: 2, ..Row::blank() }]);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.parquet");
        store(&run, &path).expect("room");
        let back = load(&path).expect("ours");
        assert_eq!(back.rows, run.rows);
        assert_eq!(back.provenance, run.provenance);
        assert_eq!(folder.path().read_dir().unwrap().count(), 1);
    }

    #[test]
    fn another_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("no.parquet");
        std::fs::write(&path, "PAR1 not really PAR1").unwrap();
        assert!(load(&path).is_err());
    }
}
