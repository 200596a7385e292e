//! `loadgen ladder`: several configurations at several loads, in an order that is fair to all.
//!
//! Plan -> cells in order -> one after the other: start everything, probe the machine, measure, stop
//! everything -> a Parquet file each. A cell that is there is not measured again, so an interrupted ladder goes on
//! where it was. What measures a cell is a [`climb::Runner`]; plan, order, folder and report do not know which.

mod cell;
mod check;
mod climb;
#[cfg(test)]
mod examples;
mod machine;
mod plan;
mod progress;
mod store;

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context as _;

pub(crate) use cell::files;
use climb::{Portion, climb};
pub(crate) use plan::Plan;
use store::Store;

use crate::{console, exit::Exit, interrupt::Stop};

/// Measure every configuration of a plan at every load of it.
///
/// All processes are started anew for every cell. Loads go up, and configurations take turns in being
/// first. What was measured stays: the same command goes on where an earlier one was stopped, and tries
/// again what failed. Nothing else should use the machine meanwhile.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// The plan, a TOML file such as those in loadgen/plans
    plan: PathBuf,
    /// Where cells are kept, a folder
    #[arg(long, value_name = "FOLDER", required_unless_present = "list")]
    out: Option<PathBuf>,
    /// The model's file, for plans whose programs serve one [default: what the plan says]
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,
    /// Where the programs are [default: what the plan says, or else beside this program, or else in PATH]
    #[arg(long, value_name = "FOLDER")]
    bin_dir: Option<PathBuf>,
    /// Try a cell that failed or is invalid so many times before the ladder ends without it
    #[arg(long, value_name = "COUNT", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=100))]
    attempts: u32,
    /// Measure at most so many cells, and end as if interrupted [default: all]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    cells: Option<u32>,
    /// What is written down as the state of the source [default: what git says of the folder, if anything]
    #[arg(long, value_name = "TEXT")]
    source: Option<String>,
    /// Only look whether everything is there and takes its settings, and say which cells there are, in order
    #[arg(long)]
    list: bool,
}

/// Measures what is missing.
///
/// # Errors
/// The plan makes no sense, something it names is not there, or the folder has cells of something else.
pub(crate) fn run(options: &Options) -> anyhow::Result<Exit> {
    let plan = Plan::read(&options.plan)?;
    let mut machine = machine::Machine::new(&plan, options)?;
    if options.list {
        let names: Vec<_> = cell::order(&plan).iter().map(cell::Cell::name).collect();
        console::say(&names.join("\n"));
        return Ok(Exit::Done);
    }
    let out = options.out.as_deref().context("nowhere to keep the cells")?;
    let stop = Stop::listen()?;
    let store = open(out, &options.plan)?;
    let portion = Portion { attempts: options.attempts, cells: options.cells };
    climb(&plan, &store, &mut machine, portion, &stop)
}

fn open(out: &Path, plan: &Path) -> anyhow::Result<Store> {
    let text = fs::read_to_string(plan);
    Store::open(out, &text.with_context(|| format!("cannot read the plan {}", plan.display()))?)
}
