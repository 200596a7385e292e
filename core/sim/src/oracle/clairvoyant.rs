//! The clairvoyant schedule: who to let in, if lengths, arrivals and noise are known.

use units::{Span, TokenCount};
use workload::{Draws, Given, Source};

use super::{Job, Price, jobs};
use crate::{Natural, Report, Scenario, run, world::ask_of};

/// Requests that are tried together first.
const CHUNK: usize = 64;
/// A neighbourhood: requests that are taken out around one moment.
const OUT: u64 = 6;
/// The stream of what is drawn here.
const STREAM: u64 = 501;

/// A set of requests that is answered in time as a whole.
#[derive(Clone, Debug, PartialEq)]
pub struct Clairvoyance {
    /// Their numbers, in order.
    pub accepted: Vec<usize>,
    /// Simulations that were made.
    pub simulations: u32,
}

/// The largest set of requests that was found, each of which is answered within `slo` when exactly these are
/// sent: greedy by cost, then `rounds` of large-neighbourhood search. Every set that is accepted was
/// simulated, so the result can be had: it is a lower bound of the best, and a heuristic.
///
/// The scenario's admission should let everybody in; its clients neither leave nor try again here.
#[must_use]
pub fn clairvoyant(scenario: &Scenario, slo: Span, rounds: u32) -> Clairvoyance {
    let all = jobs(scenario);
    let cost = scenario.engines[0].truth.cost;
    let price = Price::new(&cost, scenario.engines[0].limits.slots);
    let mut search = Search { scenario, slo, simulations: 0 };
    let mut order: Vec<&Job> = all.iter().collect();
    order.sort_by(|one, other| price.of(one).total_cmp(&price.of(other)));
    let order: Vec<usize> = order.into_iter().map(|job| job.index).collect();
    let mut accepted = Vec::new();
    for chunk in order.chunks(CHUNK) {
        search.extend(&mut accepted, chunk);
    }
    let mut draws = Draws::new(scenario.seed, STREAM);
    for _ in 0..rounds {
        search.improve(&mut accepted, &order, &mut draws);
    }
    Clairvoyance { accepted, simulations: search.simulations }
}

struct Search<'a> {
    scenario: &'a Scenario,
    slo: Span,
    simulations: u32,
}

impl Search<'_> {
    /// Adds as many of `chunk` as keep everybody in time: all at once, or else its halves.
    fn extend(&mut self, accepted: &mut Vec<usize>, chunk: &[usize]) {
        if chunk.is_empty() {
            return;
        }
        let mut with: Vec<usize> = accepted.iter().chain(chunk).copied().collect();
        with.sort_unstable();
        if self.holds(&with) {
            *accepted = with;
        } else if chunk.len() > 1 {
            let (first, second) = chunk.split_at(chunk.len() / 2);
            self.extend(accepted, first);
            self.extend(accepted, second);
        }
    }

    /// Takes some out around a moment, and puts in whoever fits there, in another order. Keeps what is no
    /// smaller.
    fn improve(&mut self, accepted: &mut Vec<usize>, order: &[usize], draws: &mut Draws) {
        let requests = self.scenario.clients.arrivals.len() as u64;
        let near = draws.below(requests.max(1));
        let lowest = near.saturating_sub(OUT);
        let is_near = |index: usize| (lowest..=near + OUT).contains(&(index as u64));
        let mut rest: Vec<usize> = accepted.clone();
        rest.retain(|index| !is_near(*index) || draws.unit() < 0.5);
        let mut candidates: Vec<usize> = order
            .iter()
            .copied()
            .filter(|index| is_near(*index) && !rest.contains(index))
            .collect();
        for at in 1..candidates.len() {
            if draws.unit() < 0.3 {
                candidates.swap(at - 1, at);
            }
        }
        for candidate in candidates {
            self.extend(&mut rest, &[candidate]);
        }
        if rest.len() >= accepted.len() {
            *accepted = rest;
        }
    }

    /// Whether all of a set are answered in time when they alone are sent.
    fn holds(&mut self, set: &[usize]) -> bool {
        self.simulations += 1;
        let report = run(&only(self.scenario, set));
        in_time(&report, self.slo)
    }
}

fn in_time(report: &Report, slo: Span) -> bool {
    report.requests.iter().all(|request| request.met(slo))
}

/// The scenario with these requests only, each as it was.
fn only(scenario: &Scenario, set: &[usize]) -> Scenario {
    let mut few = scenario.clone();
    let clients = &mut few.clients;
    clients.arrivals = set.iter().map(|index| scenario.clients.arrivals[*index]).collect();
    clients.leaving.clear();
    clients.retries = false;
    let asks: Vec<_> = set.iter().map(|index| ask_of(scenario, *index)).collect();
    clients.natural = Natural::Listed(asks.iter().map(|(_, natural)| *natural).collect());
    let prompts = asks.into_iter().map(|(ask, _)| Given {
        prompt: ask.prompt,
        max_tokens: Some(ask.max_tokens),
        budgets: ask.budgets,
    });
    let answer = workload::Lengths::Fixed(TokenCount(1));
    clients.source = Source::Given { prompts: prompts.collect(), answer };
    clients.max_tokens = None;
    few
}

#[cfg(test)]
mod tests {
    use admit::{Policy, Settings};
    use workload::Arrivals;

    use super::*;
    use crate::{Named, Rung};

    fn scenario(rate: f64) -> Scenario {
        let arrivals = Arrivals::Poisson { rate }.schedule(Span::from_secs(20), 5).expect("a rate");
        let settings = Settings {
            policy: Policy::Off,
            lease: Span::from_millis(1_500),
            patience: Span::ZERO,
            budget: Span::from_secs(3_600),
            held_max: 0,
            standalone_max: 0,
        };
        Named::Seed.scenario(Rung::Paged, settings, arrivals, 5)
    }

    #[test]
    fn what_is_left_out_does_not_change_the_others() {
        let scenario = scenario(1.0);
        let all: Vec<usize> = (0..scenario.clients.arrivals.len()).collect();
        let (whole, listed) = (run(&scenario), run(&only(&scenario, &all)));
        assert_eq!(whole.digest, listed.digest);
    }

    #[test]
    fn what_it_accepts_is_in_time_and_more_than_without() {
        let scenario = scenario(4.0);
        let slo = Span::from_secs(4);
        let plain = run(&scenario).requests.iter().filter(|request| request.met(slo)).count();
        let seen = clairvoyant(&scenario, slo, 4);
        assert!(in_time(&run(&only(&scenario, &seen.accepted)), slo));
        assert!(seen.accepted.len() > plain, "{} {plain}", seen.accepted.len());
        let price = Price::new(&scenario.engines[0].truth.cost, 24);
        let most = super::super::lp(&jobs(&scenario), &price, slo, Span::from_secs(24));
        // Noise may help a little.
        assert!((seen.accepted.len() as f64) < most * 1.1, "{} {most}", seen.accepted.len());
    }
}
