//! What is expected, as it is kept.

use serde::{Deserialize, Serialize};

/// At the top of the file.
const HEAD: &str = "\
# What the service does, kept with the source so that a change that makes it worse is seen.
# `loadgen gate` compares; `loadgen gate --write` renews the figures after a change that was meant.
";

/// Both gates.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Budget {
    pub(super) simulated: Section,
    /// Of the mock, which sleeps for as long as steps take.
    pub(super) real: Section,
}

/// What one gate runs, and what it expects.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Section {
    /// The target, as on the command line.
    pub(super) slo: String,
    pub(super) duration_s: u32,
    /// Runs of each load, whose requests are taken together.
    pub(super) seeds: u32,
    pub(super) loads: Vec<Figures>,
}

/// What is expected at one load, or was measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Figures {
    /// Requests a second.
    pub(super) rate: f64,
    /// Answers in time, a second.
    pub(super) goodput_rps: f64,
    /// Of whole answers.
    pub(super) p99_ms: f64,
}

impl Budget {
    /// # Errors
    /// It is none, or asks for runs that cannot be.
    pub(super) fn parse(text: &str) -> anyhow::Result<Self> {
        let budget: Self = toml::from_str(text)?;
        for section in [&budget.simulated, &budget.real] {
            let sane = (1..=10_000).contains(&section.duration_s)
                && (1..=1_000).contains(&section.seeds)
                && !section.loads.is_empty();
            anyhow::ensure!(sane, "a gate needs seconds, seeds and loads");
            for Figures { rate, goodput_rps, p99_ms } in &section.loads {
                let sane = *rate > 0.0 && *rate <= 1_000.0 && *goodput_rps >= 0.0 && *p99_ms > 0.0;
                anyhow::ensure!(sane, "the figures at {rate} rps cannot be");
            }
        }
        Ok(budget)
    }

    pub(super) fn print(&self) -> anyhow::Result<String> {
        Ok(format!("{HEAD}\n{}", toml::to_string(self)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_what_is_written() {
        let text = include_str!("../../gate.toml");
        let budget = Budget::parse(text).unwrap();
        assert_eq!(budget.print().unwrap(), text);
    }

    #[test]
    fn budgets_that_make_no_sense_are_refused() {
        let text = include_str!("../../gate.toml");
        for (from, to) in [("seeds = ", "seeds = 0"), ("rate = ", "rate = -"), ("slo", "goal")] {
            assert!(text.contains(from));
            assert!(Budget::parse(&text.replacen(from, to, 1)).is_err(), "{to}");
        }
    }
}
