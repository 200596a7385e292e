//! The journal: provenance in the first line, then a row a line.

use std::{
    fs::File,
    io::{BufRead as _, BufReader, BufWriter, Read as _, Write as _},
    path::{Path, PathBuf},
};

use anyhow::Context as _;

use super::{Provenance, Row, Run};

/// A journal that is being written. What cannot be written stays in memory: a full disk loses nothing
/// while the process lives.
pub(crate) struct Journal {
    path: PathBuf,
    out: BufWriter<File>,
    /// Rows since the disk refused one.
    kept: Vec<Row>,
    refused: Option<std::io::Error>,
}

impl Journal {
    /// Begins one.
    ///
    /// # Errors
    /// The file exists or cannot be made: known before anything is sent.
    pub(crate) fn create(path: &Path, provenance: &Provenance) -> anyhow::Result<Self> {
        let cannot = || format!("cannot write {}", path.display());
        let file = File::create_new(path).with_context(cannot)?;
        let mut journal = Self {
            path: path.to_owned(),
            out: BufWriter::new(file),
            kept: Vec::new(),
            refused: None,
        };
        let first = serde_json::to_string(provenance)?;
        writeln!(journal.out, "{first}").and_then(|()| journal.out.flush()).with_context(cannot)?;
        Ok(journal)
    }

    /// Appends a row.
    pub(crate) fn append(&mut self, row: Row) {
        if self.refused.is_none() {
            let line = serde_json::to_string(&row).expect("a row has JSON");
            match writeln!(self.out, "{line}") {
                Ok(()) => return,
                Err(error) => self.refused = Some(error),
            }
        }
        self.kept.push(row);
    }

    /// Hands everything to the system.
    pub(crate) fn flush(&mut self) {
        if self.refused.is_none() {
            self.refused = self.out.flush().err();
        }
    }

    /// Why rows are kept in memory, if they are.
    pub(crate) fn refused(&self) -> Option<&std::io::Error> {
        self.refused.as_ref()
    }

    /// Reads all of it back, with what the disk refused.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn finish(mut self) -> anyhow::Result<Run> {
        self.flush();
        // What the disk refused may begin in the middle of a line of which it took the beginning.
        let (file, unwritten) = self.out.into_parts();
        drop(file);
        let unwritten = unwritten.unwrap_or_default();
        let mut run = read_with(&self.path, &unwritten)?;
        run.rows.append(&mut self.kept);
        settle(&mut run.rows);
        Ok(run)
    }
}

/// Reads a journal, whole or torn: a line that makes no sense is what a full disk or a kill left.
///
/// # Errors
/// It cannot be read, or its first line is not ours.
pub(crate) fn read(path: &Path) -> anyhow::Result<Run> {
    read_with(path, &[])
}

fn read_with(path: &Path, rest: &[u8]) -> anyhow::Result<Run> {
    let cannot = || format!("cannot read {}", path.display());
    let file = File::open(path).with_context(cannot)?;
    let mut lines = BufReader::new(file.chain(rest)).split(b'\n');
    let first = lines.next().transpose().with_context(cannot)?.unwrap_or_default();
    let provenance = serde_json::from_slice(&first)
        .with_context(|| format!("{} is no journal of a run", path.display()))?;
    let mut rows = Vec::new();
    for line in lines {
        rows.extend(row(&line.with_context(cannot)?));
    }
    settle(&mut rows);
    Ok(Run { provenance, rows })
}

fn row(line: &[u8]) -> Option<Row> {
    serde_json::from_slice(line).ok()
}

/// By number, each once.
fn settle(rows: &mut Vec<Row>) {
    rows.sort_by_key(|row| row.index);
    rows.dedup_by_key(|row| row.index);
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;
    use crate::record::examples::example;

    fn row_number(index: u64) -> Row {
        Row { index, gaps_us: vec![7; 20], ..Row::blank() }
    }

    /// A journal whose disk is `disk` after its first line.
    fn journal_on(disk: &Path, folder: &Path) -> Journal {
        let path = folder.join("run.journal");
        Journal::create(&path, &example(Vec::new()).provenance).unwrap();
        let file = File::options().append(true).open(disk).unwrap();
        Journal { path, out: BufWriter::new(file), kept: Vec::new(), refused: None }
    }

    #[test]
    fn a_full_disk_loses_nothing_while_the_process_lives() {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = journal_on(Path::new("/dev/full"), folder.path());
        (0..500).for_each(|index| journal.append(row_number(index)));
        assert!(journal.refused().is_some());
        let back = journal.finish().unwrap();
        assert_eq!(back.rows, (0..500).map(row_number).collect::<Vec<_>>());
    }

    #[test]
    fn rows_come_back_in_order_and_once() {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = journal_on(&folder.path().join("run.journal"), folder.path());
        for index in [2, 0, 1, 1] {
            journal.append(row_number(index));
        }
        let rows: Vec<_> = journal.finish().unwrap().rows.iter().map(|row| row.index).collect();
        assert_eq!(rows, [0, 1, 2]);
    }

    #[test]
    fn a_torn_line_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = journal_on(&folder.path().join("run.journal"), folder.path());
        journal.append(row_number(0));
        journal.append(row_number(1));
        journal.flush();
        let bytes = fs::read(&journal.path).unwrap();
        fs::write(&journal.path, &bytes[..bytes.len() - 3]).unwrap();
        assert_eq!(read(&journal.path).unwrap().rows, [row_number(0)]);
        fs::write(&journal.path, "not ours\n").unwrap();
        assert!(read(&journal.path).is_err());
    }
}
