//! `loadgen simulate`: the whole service in virtual time.
//!
//! The worlds, and everything that happens in them, are in `core/sim`; here are their options, threads to run
//! several at once, and the files and tables that measured runs have too.

mod cells;
mod model;
mod options;
mod oracle;
mod rows;
mod run;
mod search;
mod table;
mod world;

use clap::{Args, Subcommand};

pub(crate) use cells::in_parallel;
pub(crate) use world::settings;

use crate::exit::Exit;

/// Run the whole service in virtual time: minutes of load in a second, the same each time.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Simulate one run, and show it as a measured one
    Run(Box<run::Options>),
    /// Run random worlds with faults, and look for what must not happen
    Search(search::Options),
    /// Show every rung at the loads that the seed project was measured at
    Seed(table::Options),
    /// Show what could be had at most, and by whom
    Oracle(oracle::Options),
}

impl Options {
    /// What the parser cannot know.
    ///
    /// # Errors
    /// An option that would change nothing.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        match &self.command {
            Command::Run(options) => options.check(),
            Command::Search(_) | Command::Seed(_) | Command::Oracle(_) => Ok(()),
        }
    }
}

/// Does what the command line says.
///
/// # Errors
/// A file cannot be read or written, or the options make no run.
pub(crate) fn run(options: &Options) -> anyhow::Result<Exit> {
    match &options.command {
        Command::Run(options) => run::run(options),
        Command::Search(options) => search::run(options),
        Command::Seed(options) => table::run(options),
        Command::Oracle(options) => oracle::run(options),
    }
}
