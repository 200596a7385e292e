//! What a run is told.

use std::{path::PathBuf, str::FromStr};

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use units::Span;
use workload::{Budgets, Slo};

use crate::server::Access;

/// Send requests on schedule and write down what comes back.
///
/// The schedule is fixed before the first request. A request that is slow, or that fails, delays no other;
/// there is no limit on connections. A run in which this program was late by more than 250 ms says
/// nothing about the server, and ends with 2.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(crate) server: Access,

    /// How requests arrive
    #[arg(long, value_enum, default_value = "poisson", help_heading = "Arrivals")]
    pub(crate) arrivals: Process,
    /// Requests a second
    #[arg(long, value_name = "RPS", default_value_t = 1.0, value_parser = rate, help_heading = "Arrivals")]
    pub(crate) rate: f64,
    /// Of gamma arrivals: below 1 they come in bursts, 1 is poisson, above they become regular [default: 1]
    #[arg(long, value_name = "SHAPE", value_parser = burstiness, help_heading = "Arrivals")]
    pub(crate) burstiness: Option<f64>,
    /// For how many seconds requests arrive
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds, help_heading = "Arrivals")]
    pub(crate) duration: Span,
    /// Requests of the first seconds are sent and written down, but not counted
    #[arg(long, value_name = "SECONDS", default_value = "0", value_parser = seconds, help_heading = "Arrivals")]
    pub(crate) warmup: Span,
    /// The same seed gives the same schedule and the same prompts on every machine
    #[arg(long, default_value_t = 0, help_heading = "Arrivals")]
    pub(crate) seed: u64,
    /// Send what this trace says when it says: JSONL with time (seconds) or timestamp (milliseconds),
    /// prompt, messages or prompt_tokens, and max_tokens. The first request is sent at once
    #[arg(long, value_name = "FILE", help_heading = "Arrivals", conflicts_with_all = ["arrivals", "rate", "burstiness", "duration", "workload", "scale", "prompts"])]
    pub(crate) replay: Option<PathBuf>,
    /// Play a trace so many times as fast [default: 1]
    #[arg(long, value_name = "FACTOR", value_parser = speed, help_heading = "Arrivals")]
    pub(crate) speed: Option<f64>,

    #[command(flatten)]
    pub(crate) workload: WorkloadOptions,
    /// Answers go on to their cap, where the server knows `ignore_eos`
    #[arg(long, help_heading = "Workload")]
    pub(crate) ignore_eos: bool,

    /// Targets in milliseconds: e2e and ttft from the intended arrival, itl the longest gap between
    /// tokens, tpot the mean one. `stretch:2.5*(80+2.2p+8t)` is an E2E target of each request's own: of p
    /// prompt tokens that are new, and t of the answer. What meets all of them is goodput
    #[arg(long, value_name = "e2e:MS,ttft:MS,...", default_value = "", hide_default_value = true, value_parser = slo, help_heading = "Targets")]
    pub(crate) slo: Slo,
    /// Tell the server about its time: sent as x-slo-e2e-ms, x-slo-ttft-ms, x-slo-patience-ms
    #[arg(long, value_name = "e2e:MS,ttft:MS,patience:MS", default_value = "", hide_default_value = true, value_parser = budgets, help_heading = "Targets")]
    pub(crate) budget: Budgets,
    /// Whether a client tries again: `sdk` does it as OpenAI's libraries do, twice, with their waits
    #[arg(long, value_enum, default_value = "none", help_heading = "Targets")]
    pub(crate) retries: Retries,
    /// Give a request up so many seconds after it had to arrive
    #[arg(long, value_name = "SECONDS", default_value = "300", value_parser = seconds, help_heading = "Targets")]
    pub(crate) timeout: Span,
    /// Give everything up so many seconds after the time in which requests arrive [default: never]
    #[arg(long, value_name = "SECONDS", value_parser = seconds, help_heading = "Targets")]
    pub(crate) drain: Option<Span>,

    /// The Parquet file to write, a row for each request [default: loadgen-TIME.parquet]. Until the end
    /// of the run it is a journal beside it
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) out: Option<PathBuf>,
    /// Write over files, and over the journal of an earlier run
    #[arg(long, help_heading = "Output")]
    pub(crate) overwrite: bool,
    /// Write the summary as JSON
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) json: Option<PathBuf>,
    /// Write the summary under the names that `vllm bench serve` uses
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) vllm_json: Option<PathBuf>,
}

/// What is asked.
#[derive(Clone, Debug, Args)]
pub(crate) struct WorkloadOptions {
    /// What is asked
    #[arg(long, value_enum, default_value = "cadence", help_heading = "Workload")]
    pub(crate) workload: Named,
    /// Of the scaled workload: every length times this [default: 0.25]
    #[arg(long, value_name = "FACTOR", value_parser = scale, help_heading = "Workload")]
    pub(crate) scale: Option<f64>,
    /// Ask these prompts in turn: a line each, plain text or JSON as in a trace
    #[arg(long, value_name = "FILE", help_heading = "Workload", conflicts_with = "workload")]
    pub(crate) prompts: Option<PathBuf>,
    /// Cap on every answer, instead of what the workload draws
    #[arg(long, value_name = "TOKENS", help_heading = "Workload", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) max_tokens: Option<u32>,
}

/// Arrival processes by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Process {
    /// Exponential gaps, as of independent users
    Poisson,
    /// Equal gaps; they understate queueing
    Constant,
    /// Gamma gaps with --burstiness
    Gamma,
}

/// Workloads by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Named {
    /// 70 % share one of four system prompts of 480 to 600 tokens, answers are lognormal, 16 to 512 tokens
    Cadence,
    /// All prompts have 576 tokens, all answers 134: the control
    Uniform,
    /// cadence with every length times --scale, for small machines
    Scaled,
}

/// Client behaviour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Retries {
    /// One attempt
    None,
    /// Up to three, as OpenAI's libraries do
    Sdk,
}

impl Options {
    /// Whether they go together: an option that would change nothing was meant to.
    ///
    /// # Errors
    /// One that belongs to another that was not given.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        if self.burstiness.is_some() && self.arrivals != Process::Gamma {
            return Err("--burstiness belongs to --arrivals gamma");
        }
        if self.speed.is_some() && self.replay.is_none() {
            return Err("--speed belongs to --replay");
        }
        self.workload.check()
    }
}

impl WorkloadOptions {
    /// The same of these.
    ///
    /// # Errors
    /// The same.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        let no_scale = self.scale.is_some() && self.workload != Named::Scaled;
        if no_scale { Err("--scale belongs to --workload scaled") } else { Ok(()) }
    }
}

fn number(text: &str, least: f64, most: f64) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    let sane = (least..=most).contains(&number);
    if sane { Ok(number) } else { Err(format!("from {least} to {most}")) }
}

pub(crate) fn rate(text: &str) -> Result<f64, String> {
    number(text, 1e-6, 1e6)
}

pub(crate) fn burstiness(text: &str) -> Result<f64, String> {
    number(text, 0.001, 1_000.0)
}

fn speed(text: &str) -> Result<f64, String> {
    number(text, 1e-6, 1e6)
}

fn scale(text: &str) -> Result<f64, String> {
    number(text, 0.001, 100.0)
}

pub(crate) fn seconds(text: &str) -> Result<Span, String> {
    let secs: f64 = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    let sane = (0.0..=1e7).contains(&secs);
    sane.then(|| Span::from_secs_f64(secs)).ok_or("from 0 to 10000000 seconds".into())
}

pub(crate) fn slo(text: &str) -> Result<Slo, workload::ParseSloError> {
    if text.is_empty() { Ok(Slo::default()) } else { Slo::from_str(text) }
}

pub(crate) fn budgets(text: &str) -> Result<Budgets, workload::ParseSloError> {
    if text.is_empty() { Ok(Budgets::default()) } else { Budgets::from_str(text) }
}
