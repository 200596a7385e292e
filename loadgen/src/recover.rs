//! `loadgen recover`: what a run left that was killed, or whose disk was full.

use std::{fs, path::PathBuf};

use crate::{console, exit::Exit, record};

/// Make a Parquet file of a journal.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The journal, such as run.parquet.journal
    journal: PathBuf,
    /// The file to write
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

/// Writes the file. The journal stays.
///
/// # Errors
/// The journal cannot be read, or the file not be written.
pub(crate) fn run(options: &Options) -> anyhow::Result<Exit> {
    let exists = fs::exists(&options.out)?;
    anyhow::ensure!(!exists, "{} exists already", options.out.display());
    let run = record::read_journal(&options.journal)?;
    record::store(&run, &options.out)?;
    let (rows, scheduled) = (run.rows.len(), run.provenance.scheduled);
    console::say(&format!("{rows} of {scheduled} requests in {}", options.out.display()));
    Ok(Exit::Done)
}
