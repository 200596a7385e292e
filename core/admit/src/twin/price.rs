//! What a request costs in machine time, and what is too dear when machine time is short.

use std::collections::VecDeque;

use sched::StepShape;
use units::{Micros, Span};

use crate::forecast::StepTimes;

/// Offers that make the price.
const WINDOW: Span = Span::from_secs(30);
/// The price is believed once the window has been filled for so long.
const WINDOW_MIN: Span = Span::from_secs(10);
/// The price is computed again after this long.
const EVERY: Span = Span::from_millis(500);
/// Offers that are remembered.
const OFFERS_MAX: usize = 4_096;
/// Batches over which the time of a token is averaged.
const BATCHES: [u32; 4] = [4, 8, 12, 16];

/// Machine time that a request asks for, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Cost {
    /// Its prompt, and its answer's share of the steps that make it.
    pub(crate) shared_us: f64,
    /// In an engine of its own.
    pub(crate) alone_us: f64,
}

impl Cost {
    /// Of `prompt` tokens that have to be computed and a mean of `answer` tokens.
    pub(crate) fn of(times: &StepTimes, slots: u32, prompt: u32, answer: f64) -> Self {
        let one = |shape| times.us(shape) as f64;
        let empty = one(StepShape::default());
        let many = one(StepShape { prefill: 256, ..StepShape::default() });
        let per_prompt_token = (many - empty).max(0.0) / 256.0;
        let shares = BATCHES.map(|batch| {
            let decodes = batch.min(slots.max(1));
            one(StepShape { decodes, ..StepShape::default() }) / f64::from(decodes)
        });
        let per_token = shares.iter().sum::<f64>() / BATCHES.len() as f64;
        let prompt_us = f64::from(prompt) * per_prompt_token;
        let decode = one(StepShape { decodes: 1, ..StepShape::default() });
        Self { shared_us: prompt_us + answer * per_token, alone_us: prompt_us + answer * decode }
    }
}

/// The latest offers and the cost from which on they are too dear.
#[derive(Clone, Debug, Default)]
pub(crate) struct Price {
    offers: VecDeque<(Micros, f64)>,
    since: Option<Micros>,
    computed_at: Micros,
    limit_us: Option<f64>,
}

impl Price {
    /// Somebody asked for so much.
    pub(crate) fn offered(&mut self, now: Micros, cost_us: f64) {
        self.since.get_or_insert(now);
        if cost_us.is_finite() && cost_us >= 0.0 {
            self.offers.push_back((now, cost_us));
        }
        while let Some((at, _)) = self.offers.front()
            && (now.since(*at) > WINDOW || self.offers.len() > OFFERS_MAX)
        {
            self.offers.pop_front();
        }
    }

    /// The price, where `share` of the machine's time may be asked for. None: nothing is too dear.
    pub(crate) fn limit_us(&mut self, now: Micros, share: f64) -> Option<f64> {
        if now.since(self.computed_at) >= EVERY {
            self.computed_at = now;
            self.limit_us = self.compute(now, share);
        }
        self.limit_us
    }

    fn compute(&self, now: Micros, share: f64) -> Option<f64> {
        let begun = self.offers.front().map(|(at, _)| *at).max(self.since)?;
        let seen = now.since(begun);
        if seen < WINDOW_MIN {
            return None;
        }
        let mut costs: Vec<f64> = self.offers.iter().map(|(_, cost)| *cost).collect();
        costs.sort_unstable_by(f64::total_cmp);
        let room = seen.0 as f64 * share;
        let mut asked = 0.0;
        costs.into_iter().find(|cost| {
            asked += cost;
            asked > room
        })
    }

    /// As it was computed last.
    pub(crate) fn last_us(&self) -> Option<f64> {
        self.limit_us
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn price_of(per_second: u64, costs: &[f64]) -> Option<f64> {
        let mut price = Price::default();
        let mut now = Micros(0);
        for (at, cost) in (0..per_second * 40).zip(costs.iter().cycle()) {
            now = Micros(at * 1_000_000 / per_second);
            price.offered(now, *cost);
        }
        price.limit_us(now, 1.0)
    }

    #[test]
    fn nothing_is_too_dear_while_there_is_time_for_all() {
        assert_eq!(price_of(2, &[100_000.0, 700_000.0]), None);
    }

    #[test]
    fn the_dearest_are_priced_out_when_time_is_short() {
        assert_eq!(price_of(4, &[100_000.0, 900_000.0]), Some(900_000.0));
        assert_eq!(price_of(40, &[100_000.0, 900_000.0]), Some(100_000.0));
    }

    #[test]
    fn odd_costs_are_no_offers() {
        let mut price = Price::default();
        for at in 0..100 {
            price.offered(Micros(at * 1_000_000), f64::NAN);
        }
        assert_eq!(price.limit_us(Micros(100_000_000), 1.0), None);
    }
}
