//! What `engine-worker` does beside serving.

mod calibrate;
#[cfg(feature = "llama")]
mod optimize;

use std::{ffi::OsString, process::ExitCode};

use clap::{Parser, Subcommand};
use service::exit;

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
    /// Write a model anew with weights that this processor is faster with, and say what that costs
    #[cfg(feature = "llama")]
    Optimize(optimize::Options),
    /// The part of `optimize` that may end with its process
    #[cfg(feature = "llama")]
    #[command(hide = true)]
    Requantize(optimize::Part),
}

/// Whether this command line asks for one of these commands rather than for the service.
#[must_use]
pub fn is_asked(args: &[OsString]) -> bool {
    args.get(1).is_some_and(|first| Command::has_subcommand(&first.to_string_lossy()))
}

/// Runs a command; how the process ends. A wrong command line ends it with 2 and says what is wrong.
#[must_use]
pub fn run(args: &[OsString]) -> ExitCode {
    match Cli::parse_from(args).command {
        Command::Calibrate(options) => exit::code("engine-worker", calibrate::run(options)),
        #[cfg(feature = "llama")]
        Command::Optimize(options) => optimize::run(options),
        #[cfg(feature = "llama")]
        Command::Requantize(part) => optimize::run_part(&part),
    }
}
