//! `loadgen`: an open-loop load generator for OpenAI-compatible servers.
//!
//! Plan -> send on schedule -> journal -> Parquet -> summary. The plan is a pure function of the seed
//! (`core/workload`); a thread that waits for nothing but the clock starts each request; what comes back
//! is read by as many tasks as there are requests. Nothing the server does changes when the next one is sent.

mod calibrate;
mod cli;
mod clock;
mod console;
mod digest;
mod drain;
mod exit;
mod gate;
mod interrupt;
mod keep;
mod ladder;
mod limits;
mod record;
mod recover;
mod report;
mod run;
mod server;
mod simulate;
mod stub;
mod summary;
mod validate;
mod wire;

use std::process::ExitCode;

use cli::{Cli, Command};

fn main() -> ExitCode {
    let cli = Cli::read();
    limits::raise_open_files();
    let done = match cli.command {
        Command::Run(options) => run::run(&options),
        Command::Ladder(options) => ladder::run(&options),
        Command::Report(options) => report::run(&options),
        Command::Calibrate(options) => calibrate::run(&options),
        Command::Validate(options) => validate::run(&options),
        Command::Stub(options) => stub::run(&options),
        Command::DrainCheck(options) => drain::run(options),
        Command::Gate(options) => gate::run(&options),
        Command::Simulate(options) => simulate::run(&options),
        Command::Recover(options) => recover::run(&options),
        Command::Keep(options) => keep::run(&options),
    };
    match done {
        Ok(exit) => exit.into(),
        Err(error) => {
            console::note(&format!("loadgen: {error:#}"));
            exit::Exit::Failed.into()
        }
    }
}
