//! What a trace folder holds, in numbers.

use std::{
    collections::BTreeMap,
    io::{self, Write},
    path::PathBuf,
};

use clap::Args;
use proto::v1::TraceRow;

use super::source;
use crate::{Facts, traces::columns};

/// Which folder.
#[derive(Clone, Debug, Args)]
pub(super) struct Options {
    /// A trace folder that no running service has
    #[arg(long, value_name = "DIR")]
    store: PathBuf,
}

/// Reads every row and says what there is.
pub(super) fn run(options: &Options) -> anyhow::Result<()> {
    let mut archive = source::open(&options.store)?;
    let mut summary = Summary::default();
    let skipped = source::read_folder(&mut archive, 0, |row| {
        summary.add(row);
        Ok(())
    })?;
    summary.print(archive.facts(), skipped, &mut io::stdout().lock())
}

#[derive(Debug, Default)]
struct Summary {
    rows: u64,
    outcomes: BTreeMap<&'static str, u64>,
    /// Rows of each run; runs sort by their start.
    runs: BTreeMap<String, u64>,
    /// First and last offer, since 1970.
    offered_us: Option<(u64, u64)>,
    numbers: Option<(u64, u64)>,
}

impl Summary {
    fn add(&mut self, row: &TraceRow) {
        self.rows += 1;
        let outcome = columns::outcome(row.outcome()).unwrap_or("unknown");
        *self.outcomes.entry(outcome).or_default() += 1;
        *self.runs.entry(row.run_id.clone()).or_default() += 1;
        self.offered_us = Some(widened(self.offered_us, row.offered_unix_us));
        self.numbers = Some(widened(self.numbers, row.number));
    }

    fn print(&self, facts: Facts, skipped: u64, out: &mut impl Write) -> anyhow::Result<()> {
        writeln!(out, "rows      {}", self.rows)?;
        for (outcome, rows) in &self.outcomes {
            writeln!(out, "  {outcome:9} {rows}")?;
        }
        if let Some((first, last)) = self.numbers {
            writeln!(out, "numbers   {first} to {last}, {} given", facts.numbered)?;
        }
        if let Some((first, last)) = self.offered_us {
            let seconds = |us| us as f64 / 1e6;
            let (from, to) = (seconds(first), seconds(last));
            writeln!(out, "offered   {from:.6} to {to:.6} (seconds since 1970)")?;
        }
        writeln!(out, "runs      {}", self.runs.len())?;
        writeln!(out, "bytes     {}", facts.bytes)?;
        writeln!(out, "lost      {}", facts.lost)?;
        writeln!(out, "skipped   {skipped}")?;
        Ok(())
    }
}

fn widened(range: Option<(u64, u64)>, by: u64) -> (u64, u64) {
    let (first, last) = range.unwrap_or((by, by));
    (first.min(by), last.max(by))
}
