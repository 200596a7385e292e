//! Development tasks that need more than a shell: `cargo xtask tidy`.
//!
//! A task reads the project and says what is wrong with it; none changes a file.

mod source;
mod syntax;
mod tidy;

use std::{
    io::{self, Write as _},
    path::PathBuf,
    process::ExitCode,
};

use clap::{Parser, Subcommand};

/// Development tasks.
#[derive(Parser)]
#[command(name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Check the rules of the house that no compiler knows.
    Tidy {
        /// The project's folder.
        #[arg(long, default_value = project())]
        root: PathBuf,
    },
}

/// The folder of the workspace that this binary was built from: cargo runs it from anywhere in there.
fn project() -> &'static str {
    let here = env!("CARGO_MANIFEST_DIR");
    here.strip_suffix("/support/xtask").unwrap_or(here)
}

fn main() -> anyhow::Result<ExitCode> {
    let Task::Tidy { root } = Cli::parse().task;
    let violations = tidy::run(&root)?;
    let mut out = io::stdout().lock();
    for violation in &violations {
        writeln!(out, "{violation}")?;
    }
    if violations.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(out, "tidy: {} violations", violations.len())?;
    Ok(ExitCode::FAILURE)
}
