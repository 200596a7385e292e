//! `loadgen gate`: whether the service still does what it did.
//!
//! In virtual time the figures are exact: a change of one microsecond anywhere shows, and a budget that is
//! broken is broken by the code and not by the machine.

mod budget;
mod judge;
mod real;
mod simulated;

use std::{fs, path::PathBuf};

use anyhow::Context as _;
use clap::Args;

use crate::{console, exit::Exit};
use budget::{Budget, Figures};

/// Whether the service still does what it did: against a budget that is kept with the source.
///
/// Ends with 0 if every load keeps it, 1 if one has become worse (p99 by more than 15 %, or less than 90 % of
/// the goodput), 2 if the run says nothing. What has become better never fails.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The budget
    #[arg(long, value_name = "FILE", default_value = "loadgen/gate.toml")]
    budget: PathBuf,
    /// Write the figures of this run into the budget
    #[arg(long)]
    write: bool,
    /// Sequences that run at once: 1 shows that the gate shuts
    #[arg(long, value_name = "SLOTS", conflicts_with = "write", value_parser = clap::value_parser!(u32).range(1..=256))]
    max_batch: Option<u32>,
    /// Measure this server in real time, with the budget for real time, instead of simulating
    #[arg(long, value_name = "URL", conflicts_with = "max_batch")]
    url: Option<String>,
}

/// Runs the gate.
///
/// # Errors
/// None: what keeps it from a verdict is said, and ends with 2.
pub(crate) fn run(options: &Options) -> anyhow::Result<Exit> {
    verdict(options).or_else(|error| {
        console::note(&format!("loadgen: gate: {error:#}"));
        Ok(Exit::Invalid)
    })
}

fn verdict(options: &Options) -> anyhow::Result<Exit> {
    let path = &options.budget;
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut budget = Budget::parse(&text).with_context(|| path.display().to_string())?;
    let section = match &options.url {
        None => &mut budget.simulated,
        Some(_) => &mut budget.real,
    };
    let measured: Vec<Figures> = match &options.url {
        None => simulated::measure(section, options.max_batch)?,
        Some(url) => real::measure(section, url)?,
    };
    for (expected, measured) in section.loads.iter().zip(&measured) {
        console::say(&judge::line(expected, measured));
    }
    if options.write {
        section.loads = measured;
        fs::write(path, budget.print()?)
            .with_context(|| format!("cannot write {}", path.display()))?;
        return Ok(Exit::Done);
    }
    let worse: Vec<String> = section
        .loads
        .iter()
        .zip(&measured)
        .flat_map(|(budget, it)| judge::worse(budget, it))
        .collect();
    worse.iter().for_each(|line| console::say(&format!("WORSE: {line}")));
    Ok(if worse.is_empty() { Exit::Done } else { Exit::Failed })
}
