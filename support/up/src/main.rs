//! Starts Cadence on this machine: engine, admission and gateway, each a process of its own.
//!
//! Check (nothing else runs, ports free, files there) -> start -> wait for `/ready` -> watch ->
//! stop: gateway, then admission, then engine. A process that dies is started again with back-off;
//! one that cannot start ends it all with its last words. Processes are known by id alone, never by
//! name. If this process is killed outright, the three live on; the next start says so.

mod child;
mod console;
mod log;
mod optimized;
mod options;
mod overruled;
mod policy;
mod preflight;
mod ready;
mod run;
mod service;
mod signals;
mod stack;

use std::process::ExitCode;

use clap::Parser as _;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let console = console::Console::stdout();
    match run::run(options::Options::parse(), console.clone()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            console.line(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}
