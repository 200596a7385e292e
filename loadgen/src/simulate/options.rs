//! What a simulated world is told.

use std::{path::PathBuf, str::FromStr};

use clap::{Args, ValueEnum};
use sim::Natural;
use units::{Span, TokenCount};
use workload::Lengths;

/// The world: its machine, its scheduler, its admission.
#[derive(Clone, Debug, Args)]
pub(crate) struct WorldOptions {
    /// Which machine, and which rules of scheduling beside the rung's
    #[arg(long, value_enum, default_value = "small", help_heading = "World")]
    pub(crate) world: WorldName,
    /// Steps cost what this file of `engine-worker calibrate` says
    #[arg(long, value_name = "FILE", help_heading = "World")]
    pub(crate) cost_model: Option<PathBuf>,
    /// How far steps are from their model
    #[arg(long, value_enum, default_value = "busy", help_heading = "World")]
    pub(crate) noise: Noise,
    /// Which configuration of the ladder
    #[arg(long, value_enum, default_value = "paged", help_heading = "World")]
    pub(crate) rung: RungName,
    /// Engines, each like the others
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=16), help_heading = "World")]
    pub(crate) engines: u8,
    /// Sequences that run at once, instead of what the world has
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=256), help_heading = "World")]
    pub(crate) slots: Option<u32>,
    /// Prompt tokens in one step, instead of what the world has
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=65_536), help_heading = "World")]
    pub(crate) prefill_tokens: Option<u32>,
    /// How long answers are by themselves: `cap`, or `lognormal:MU,SIGMA` of their tokens
    #[arg(long, value_name = "LAW", default_value = "lognormal:4.15,1.0", value_parser = natural, help_heading = "World")]
    pub(crate) answers: Natural,

    /// Who gets in
    #[arg(long, value_enum, default_value = "limit", help_heading = "Admission")]
    pub(crate) policy: PolicyName,
    /// Of `limit`: requests in an engine's system. 0: twice its slots
    #[arg(long, default_value_t = 0, help_heading = "Admission")]
    pub(crate) limit_requests: u64,
    /// How long a request waits for room when it does not say, in milliseconds
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u64).range(..=60_000), help_heading = "Admission")]
    pub(crate) patience_ms: u64,
    /// The budget of a request that names none, in milliseconds
    #[arg(long, default_value_t = 60_000, value_parser = clap::value_parser!(u64).range(1..=3_600_000), help_heading = "Admission")]
    pub(crate) budget_ms: u64,
}

/// Worlds by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WorldName {
    /// The machine and the rules that the seed project was measured with
    Seed,
    /// This project's defaults on two cores
    Small,
}

/// Rungs by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RungName {
    /// One request at a time
    Fifo,
    /// Batches that nobody joins once they run
    Static,
    /// Iteration by iteration, with room reserved for the longest answer
    Continuous,
    /// The same with paged KV and a prefix cache
    Paged,
}

/// How far steps are from their model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Noise {
    /// Not at all
    None,
    /// 7 % from step to step, 5 % drift, a stall a minute, 10 % with context
    Busy,
}

/// Policies by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PolicyName {
    /// Everybody whom the engine's memory can hold
    Off,
    /// Bounds on requests, tokens and KV blocks
    Limit,
}

/// A law of answers, as it is written.
pub(crate) fn natural(text: &str) -> Result<Natural, String> {
    if text == "cap" {
        return Ok(Natural::Cap);
    }
    let form = || "`cap`, or `lognormal:MU,SIGMA` as in lognormal:4.15,1.0".to_owned();
    let (mu, sigma) =
        text.strip_prefix("lognormal:").and_then(|it| it.split_once(',')).ok_or_else(form)?;
    let number = |text: &str| f64::from_str(text.trim()).map_err(|_| form());
    let (mu, sigma) = (number(mu)?, number(sigma)?);
    if !(0.0..=12.0).contains(&mu) || !(0.0..=4.0).contains(&sigma) {
        return Err("MU is from 0 to 12, SIGMA from 0 to 4".into());
    }
    let (min, max) = (TokenCount(1), TokenCount(1_000_000));
    Ok(Natural::Drawn(Lengths::LogNormal { mu, sigma, min, max }))
}

impl WorldOptions {
    pub(crate) fn patience(&self) -> Span {
        Span::from_millis(self.patience_ms)
    }

    pub(crate) fn budget(&self) -> Span {
        Span::from_millis(self.budget_ms)
    }

    /// What the parser cannot know.
    ///
    /// # Errors
    /// An option that would change nothing.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        match self.policy {
            PolicyName::Off if self.limit_requests > 0 => {
                Err("--limit-requests belongs to --policy limit")
            }
            PolicyName::Off | PolicyName::Limit => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn laws_are_read_and_others_refused() {
        assert_eq!(natural("cap"), Ok(Natural::Cap));
        assert!(natural("lognormal:4.15, 1").is_ok());
        for bad in [
            "",
            "caps",
            "lognormal",
            "lognormal:1",
            "lognormal:a,b",
            "lognormal:99,1",
            "lognormal:nan,1",
        ] {
            assert!(natural(bad).is_err(), "{bad}");
        }
    }
}
