//! `engine-worker optimize`: the command line, what is printed, how the process ends.

use std::{
    io::{self, Write as _},
    num::NonZeroU32,
    path::PathBuf,
    process::ExitCode,
};

use clap::{Args, ValueEnum};
use llama::Quantization;
use service::{exit, telemetry};

use crate::{
    calibration::processors,
    optimize::{self, Order, Progress, Stop, requantize},
    provenance::{Provenance, RATIO_MAX, Verdict},
};

/// The exit code after a file whose perplexity is above the bound.
const DIFFERS: u8 = 3;
/// After one that is within it and no faster.
const NO_FASTER: u8 = 4;

/// Ends with 0 if the file may take the original's place: its perplexity is at most 1.005 times the original's,
/// and it is faster. With 3 if its perplexity is higher, with 4 if it is no faster; it is written all the same.
/// With 1 if there is no file.
#[derive(Clone, Debug, Args)]
pub(super) struct Options {
    /// The model, a GGUF file
    #[arg(long, value_name = "FILE")]
    model: PathBuf,
    /// The file to write, which appears when it is whole [default: beside the model, its name and the type's]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// How weights are written
    #[arg(long = "type", value_enum, default_value = "q8_0")]
    to: Type,
    /// What both files are compared on, UTF-8 [default: the documentation of this program]
    #[arg(long, value_name = "FILE")]
    text: Option<PathBuf>,
    /// Windows of 512 tokens of the text that are compared, at most
    #[arg(long, default_value = "24")]
    windows: NonZeroU32,
    /// Times that each file's speed is measured
    #[arg(long, default_value = "5")]
    rounds: NonZeroU32,
    /// Threads of llama.cpp [default: as many as this process may use processors]
    #[arg(long)]
    threads: Option<NonZeroU32>,
    /// Overwrite the file if there is one
    #[arg(long, conflicts_with = "refresh")]
    force: bool,
    /// Keep the file if it was made of this model by this version, and write it anew if it was made otherwise
    #[arg(long)]
    refresh: bool,
}

/// The types that are on offer.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Type {
    #[value(name = "q4_0")]
    Q4_0,
    #[value(name = "q4_k_m")]
    Q4KM,
    #[value(name = "q5_k_m")]
    Q5KM,
    #[value(name = "q6_k")]
    Q6K,
    #[value(name = "q8_0")]
    Q8_0,
    #[value(name = "f16")]
    F16,
}

/// What [`requantize`] tells its child.
#[derive(Clone, Debug, Args)]
pub(super) struct Part {
    source: PathBuf,
    target: PathBuf,
    #[arg(value_enum)]
    to: Type,
    threads: u32,
}

impl From<Type> for Quantization {
    fn from(to: Type) -> Self {
        match to {
            Type::Q4_0 => Self::Q4_0,
            Type::Q4KM => Self::Q4KM,
            Type::Q5KM => Self::Q5KM,
            Type::Q6K => Self::Q6K,
            Type::Q8_0 => Self::Q8_0,
            Type::F16 => Self::F16,
        }
    }
}

/// Does what is asked for, and says how it went.
pub(super) fn run(options: Options) -> ExitCode {
    match work(options) {
        Ok(Verdict::Good) => ExitCode::SUCCESS,
        Ok(Verdict::Differs) => ExitCode::from(DIFFERS),
        Ok(Verdict::NoFaster) => ExitCode::from(NO_FASTER),
        Err(error) => exit::code("engine-worker", Err(error)),
    }
}

/// Quantises, in a process of its own.
pub(super) fn run_part(part: &Part) -> ExitCode {
    let quantized = start_logs()
        .and_then(|()| requantize::serve(&part.source, &part.target, part.to.into(), part.threads));
    exit::code("engine-worker", quantized)
}

fn work(options: Options) -> anyhow::Result<Verdict> {
    start_logs()?;
    let order = Order {
        source: options.model,
        target: options.out,
        to: options.to.into(),
        text: options.text,
        windows: options.windows.get(),
        rounds: options.rounds.get(),
        threads: options.threads.map_or_else(processors, NonZeroU32::get),
        existing: match (options.force, options.refresh) {
            (true, _) => optimize::Existing::Overwrite,
            (false, true) => optimize::Existing::Refresh,
            (false, false) => optimize::Existing::Refuse,
        },
    };
    let (target, provenance) = optimize::optimize(&order, &Stop::on_signals()?, Progress)?;
    let verdict = provenance.verdict();
    // A reader that went away is no fault of ours: the exit code says it too.
    let _ = write!(io::stdout(), "{}", report(&target, &provenance, verdict));
    Ok(verdict)
}

fn report(target: &std::path::Path, provenance: &Provenance, verdict: Verdict) -> String {
    let judged = match verdict {
        Verdict::Good => String::new(),
        Verdict::Differs => format!("; not as good as the original: {RATIO_MAX} is the bound"),
        Verdict::NoFaster => "; no faster than the original".into(),
    };
    format!("{}\n{}\n{}{judged}\n", target.display(), provenance.table(), provenance.summary())
}

/// Only what went wrong: progress is told in words.
fn start_logs() -> anyhow::Result<()> {
    telemetry::start_logs(&telemetry::Logs {
        log: "error,llama-cpp-2=error".into(),
        log_format: telemetry::LogFormat::Text,
    })
}
