//! Requests as an oracle sees them, and what they cost.

use std::collections::BTreeMap;

use sched::{StepCost, StepShape};
use units::{BLOCK_TOKENS, Micros};

use crate::{Scenario, world::ask};

/// A request, with what nobody knows when it comes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Job {
    /// Its number.
    pub index: usize,
    /// When it arrives.
    pub at: Micros,
    /// Prompt tokens that nobody else's prompt begins with.
    pub own_prompt: u32,
    /// Tokens of its answer.
    pub tokens: u32,
    /// Cap on them.
    pub cap: u32,
}

/// What steps cost, at every number of sequences.
#[derive(Clone, Debug)]
pub struct Price {
    /// Seconds of a step with so many sequences, from 1.
    step_s: Vec<f64>,
    prompt_token_s: f64,
    prompt_s: f64,
}

/// The requests of a scenario.
#[must_use]
pub fn jobs(scenario: &Scenario) -> Vec<Job> {
    let asked: Vec<_> =
        (0..scenario.clients.arrivals.len()).map(|index| ask(scenario, index)).collect();
    // How many prompts hold each block behind what comes before it.
    let mut holders = BTreeMap::new();
    for it in &asked {
        for hash in kv::block_hashes(&it.prompt) {
            *holders.entry(hash).or_insert(0_u32) += 1;
        }
    }
    let job = |(index, it): (usize, &crate::world::Asked)| {
        let is_shared = |hash: &kv::BlockHash| holders.get(hash).is_some_and(|count| *count > 1);
        let shared = kv::block_hashes(&it.prompt).take_while(is_shared).count();
        let shared = u32::try_from(shared).unwrap_or(u32::MAX).saturating_mul(BLOCK_TOKENS);
        let prompt = u32::try_from(it.prompt.len()).unwrap_or(u32::MAX);
        Job {
            index,
            at: scenario.clients.arrivals[index],
            own_prompt: prompt.saturating_sub(shared).max(1),
            tokens: it.natural.min(it.max_tokens),
            cap: it.max_tokens,
        }
    };
    asked.iter().enumerate().map(job).collect()
}

impl Price {
    /// The prices of a machine without its noise, with up to `slots` sequences (at least 1).
    #[must_use]
    pub fn new(cost: &StepCost, slots: u32) -> Self {
        let shape = |decodes, prefill| StepShape { decodes, prefill, ..StepShape::default() };
        let time = |decodes, prefill| cost.predict(shape(decodes, prefill)).as_secs_f64();
        // A prompt is computed beside answers, so that the step itself is paid already.
        let (none, one, many) = (time(1, 0), time(1, 1), time(1, 1_001));
        let prompt_token_s = (many - one) / 1_000.0;
        Self {
            step_s: (1..=slots.max(1)).map(|decodes| time(decodes, 0)).collect(),
            prompt_token_s,
            prompt_s: (one - none - prompt_token_s).max(0.0),
        }
    }

    /// Machine time of a job's prompt.
    #[must_use]
    pub fn prompt(&self, job: &Job) -> f64 {
        self.prompt_s + self.prompt_token_s * f64::from(job.own_prompt)
    }

    /// Numbers of sequences, each with the seconds of its step and of a token in it.
    pub(super) fn points(&self) -> impl Iterator<Item = (f64, f64)> {
        self.step_s.iter().zip(1_u32..).map(|(step, batch)| (*step, step / f64::from(batch)))
    }

    /// Machine time of a token, as a mean over middling batches: what jobs are ordered by.
    #[must_use]
    pub fn token(&self) -> f64 {
        let at = |batch: usize| {
            let batch = batch.min(self.step_s.len());
            self.step_s[batch - 1] / batch as f64
        };
        [4, 8, 12, 16].map(at).iter().sum::<f64>() / 4.0
    }

    /// Machine time of a job in a middling batch.
    #[must_use]
    pub fn of(&self, job: &Job) -> f64 {
        self.prompt(job) + f64::from(job.tokens) * self.token()
    }

    /// The least machine time of a token if each may take `pace` seconds: on the lower convex envelope of
    /// the batches. Nothing if even a step alone takes longer.
    pub(super) fn cheapest(&self, pace: f64) -> Option<f64> {
        let mut best: Option<f64> = None;
        let mut offer = |cost: f64| best = Some(best.map_or(cost, |best| best.min(cost)));
        let points: Vec<_> = self.points().collect();
        for &(slow, slow_cost) in &points {
            if slow <= pace {
                offer(slow_cost);
                continue;
            }
            // Part of the tokens in a slower batch, part in a faster one.
            for &(fast, fast_cost) in points.iter().filter(|(fast, _)| *fast <= pace) {
                let share = (pace - fast) / (slow - fast);
                offer(fast_cost + share * (slow_cost - fast_cost));
            }
        }
        best
    }
}

#[cfg(test)]
pub(super) mod tests {
    use sched::Bend;

    use super::*;

    /// 10 ms alone, and 1 ms for each further sequence; 1 ms for a prompt token.
    pub(crate) fn price() -> Price {
        let cost = StepCost {
            base_us: 9_000.0,
            per_decode_us: 1_000.0,
            per_prefill_token_us: 1_000.0,
            bend: Bend::NONE,
            ..StepCost::GUESS
        };
        Price::new(&cost, 10)
    }

    pub(crate) fn job(index: usize, own_prompt: u32, tokens: u32) -> Job {
        Job { index, at: Micros(0), own_prompt, tokens, cap: 2 * tokens }
    }

    #[test]
    fn a_token_costs_less_the_longer_it_may_take() {
        let price = price();
        assert_eq!(price.cheapest(0.009), None);
        let cost = |pace: f64| price.cheapest(pace).unwrap();
        assert!((cost(0.010) - 0.010).abs() < 1e-9);
        assert!((cost(0.019) - 0.0019).abs() < 1e-9);
        assert!((cost(9.0) - 0.0019).abs() < 1e-9);
        assert!(cost(0.0145) < 0.010 && cost(0.0145) > 0.0019);
    }

    #[test]
    fn prompts_are_priced_by_what_nobody_shares() {
        assert!((price().prompt(&job(0, 100, 1)) - 0.1).abs() < 1e-6);
    }
}
