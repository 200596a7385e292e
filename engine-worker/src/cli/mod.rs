//! What `engine-worker` does beside serving: `engine-worker calibrate`.

mod calibrate;

use std::ffi::OsString;

use clap::{Parser, Subcommand};

/// Works on a model file.
#[derive(Debug, Parser)]
#[command(name = "engine-worker", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measure what steps cost on this machine, and in which configuration they cost least
    Calibrate(calibrate::Options),
}

/// Whether this command line asks for one of these commands rather than for the service.
#[must_use]
pub fn is_asked(args: &[OsString]) -> bool {
    args.get(1).is_some_and(|first| Command::has_subcommand(&first.to_string_lossy()))
}

/// Runs a command. A wrong command line ends the process with 2 and says what is wrong.
///
/// # Errors
/// One line on what failed.
pub fn run(args: &[OsString]) -> anyhow::Result<()> {
    match Cli::parse_from(args).command {
        Command::Calibrate(options) => calibrate::run(options),
    }
}
