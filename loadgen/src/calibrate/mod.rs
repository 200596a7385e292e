//! `loadgen calibrate`: what a server can do, and from it which rates and targets are worth trying.
//!
//! Lengths of the workload -> prefill -> decode at several widths -> whole requests, one at a time ->
//! what follows. Nothing else may use the server meanwhile.

mod advice;
mod measure;
mod probe;
mod show;

pub(crate) use probe::{Prober, Sample, fresh};

use std::{fs, path::PathBuf, sync::Arc};

use anyhow::Context as _;

use crate::{
    console,
    exit::Exit,
    run::{Shape, WorkloadOptions},
    server::Access,
};

/// Measure what a server can do, and propose rates and targets.
///
/// Takes a minute or so. Nothing else should use the server or the machine meanwhile.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    server: Access,
    #[command(flatten)]
    workload: WorkloadOptions,
    /// Prompts of each length, and whole requests one after the other
    #[arg(long, value_name = "COUNT", default_value_t = 6, value_parser = clap::value_parser!(u32).range(2..=100))]
    samples: u32,
    /// How many streams are decoded at once, one number after the other
    #[arg(long, value_name = "COUNT,...", value_delimiter = ',', default_values_t = [1, 4, 8, 16], value_parser = clap::value_parser!(u32).range(1..=1024))]
    streams: Vec<u32>,
    /// Tokens of each stream while decoding is measured
    #[arg(long, value_name = "TOKENS", default_value_t = 48, value_parser = clap::value_parser!(u32).range(8..=4096))]
    decode_tokens: u32,
    /// Give a request up after so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout: u64,
    /// Write what was found as JSON
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl Options {
    /// Whether they go together.
    ///
    /// # Errors
    /// One belongs to another that was not given.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        self.workload.check()
    }
}

/// Measures, and says what follows.
///
/// # Errors
/// The server cannot be asked, or fails.
pub(crate) fn run(options: &Options) -> anyhow::Result<Exit> {
    let shape = Shape::new(&options.workload)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let found = runtime.block_on(async {
        let server = options.server.connect().await?;
        let prober = Arc::new(probe::Prober::new(server, options.timeout));
        measure::measure(&prober, &shape, options).await
    })?;
    let advice = advice::Advice::of(&found);
    if let Some(path) = &options.out {
        let json = serde_json::json!({ "found": found, "advice": advice });
        let text = serde_json::to_string_pretty(&json)? + "\n";
        fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    console::say(&show::text(&found, &advice, &options.server.url.to_string()));
    Ok(Exit::Done)
}
