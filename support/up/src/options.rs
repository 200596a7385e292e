//! The command line.

use std::path::PathBuf;

use clap::{Parser, value_parser};

/// Start engine, admission and gateway, keep them running, and stop them in order.
#[derive(Debug, Clone, Parser)]
#[command(name = "up", version)]
pub(crate) struct Options {
    /// The model that the engine serves, a GGUF file
    #[arg(long, value_name = "FILE")]
    pub(crate) model: Option<PathBuf>,
    /// The engine's backend
    #[arg(long)]
    pub(crate) backend: Option<String>,
    /// The TOML file that all three read
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The gateway's port on 127.0.0.1
    #[arg(long, default_value_t = 8000, value_parser = value_parser!(u16).range(1..))]
    pub(crate) port: u16,
    /// The engine's gRPC port on 127.0.0.1
    #[arg(long, default_value_t = 50051, value_parser = value_parser!(u16).range(1..))]
    pub(crate) engine_port: u16,
    /// The admission service's gRPC port on 127.0.0.1
    #[arg(long, default_value_t = 50052, value_parser = value_parser!(u16).range(1..))]
    pub(crate) admission_port: u16,
    /// How long the gateway may take to finish its streams before it is killed
    #[arg(long, default_value_t = 15_000, value_name = "MS")]
    pub(crate) gateway_grace_ms: u64,
    /// How long each other process may take to stop before it is killed
    #[arg(long, default_value_t = 12_000, value_name = "MS")]
    pub(crate) grace_ms: u64,
    /// Where process ids and logs go
    #[arg(long, default_value = ".run", value_name = "DIR")]
    pub(crate) run_dir: PathBuf,
    /// Where the three programs are [default: beside this one]
    #[arg(long, value_name = "DIR")]
    pub(crate) bin_dir: Option<PathBuf>,
}
