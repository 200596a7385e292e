//! `admission-svc export` and `admission-svc inspect`: what was decided, for people and programs.

mod export;
mod inspect;
mod jsonl;
mod parquet;
mod source;

use std::ffi::OsString;

use clap::{Parser, Subcommand};

/// Reads the traces of an admission service.
#[derive(Debug, Parser)]
#[command(name = "admission-svc", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Write rows as JSONL or Parquet
    Export(export::Options),
    /// Say what a trace folder holds
    Inspect(inspect::Options),
}

/// Whether this command line asks for one of these commands rather than for the service.
#[must_use]
pub fn is_asked(args: &[OsString]) -> bool {
    args.get(1).is_some_and(|first| first == "export" || first == "inspect")
}

/// Runs a command. A wrong command line ends the process with 2 and says what is wrong.
///
/// # Errors
/// The rows cannot be had, or not be written.
pub fn run(args: &[OsString]) -> anyhow::Result<()> {
    match Cli::parse_from(args).command {
        Command::Export(options) => export::run(&options),
        Command::Inspect(options) => inspect::run(&options),
    }
}
