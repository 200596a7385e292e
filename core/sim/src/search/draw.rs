//! Worlds at random.

use admit::{Limits as AdmissionLimits, Policy, Settings};
use kv::Layout;
use sched::{Lateness, Limits, Order, Reservation, Rules, StepCost};
use units::{BlockCount, Micros, Span, TokenCount};
use workload::{Arrivals, Budgets, Draws, Lengths, Mix, Source};

use crate::{
    Clients, Delay, EngineSpec, Fault, FaultKind, GatewaySpec, Link, Natural, Rung, Scenario,
    Truth, Wires,
};

/// What is drawn here has this stream.
const STREAM: u64 = 77;
/// Requests of one world, at most.
const REQUESTS_MAX: usize = 160;

/// Draws with a few words for choices.
struct Dice(Draws);

impl Dice {
    fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.0.below(most - least + 1)
    }

    fn small(&mut self, least: u32, most: u32) -> u32 {
        u32::try_from(self.between(least.into(), most.into())).unwrap_or(most)
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.0.below(count) == 0
    }

    fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        let at = usize::try_from(self.0.below(choices.len() as u64)).unwrap_or(0);
        choices[at]
    }

    fn millis(&mut self, least: u64, most: u64) -> Span {
        Span::from_millis(self.between(least, most))
    }

    /// A time in `span`.
    fn within(&mut self, span: Span) -> Micros {
        Micros(span.mul_f64(self.0.unit()).0)
    }
}

/// The world of a seed.
#[must_use]
pub fn draw(seed: u64) -> Scenario {
    let mut dice = Dice(Draws::new(seed, STREAM));
    let lasts = dice.millis(2_000, 20_000);
    let engines = dice.one_of(&[1, 1, 1, 2, 3]);
    let spec = engine(&mut dice);
    Scenario {
        seed,
        engines: vec![spec; engines],
        admission: admission(&mut dice),
        gateway: GatewaySpec {
            engine_timeout: dice.millis(500, 10_000),
            decide_timeout: dice.millis(100, 2_000),
            fallback_requests: dice.small(0, 4),
            fallback_budget: dice.millis(500, 60_000),
        },
        clients: clients(&mut dice, seed, lasts),
        wires: wires(&mut dice),
        faults: faults(&mut dice, engines, lasts),
    }
}

fn engine(dice: &mut Dice) -> EngineSpec {
    let slots = dice.small(1, 6);
    let prefill_tokens = dice.small(1, 128);
    let context_tokens = dice.small(4, 24) * units::BLOCK_TOKENS;
    let mut limits = Limits {
        slots,
        context_tokens,
        batch_tokens: prefill_tokens.max(slots) + dice.small(0, 16),
        prefill_tokens,
        step: dice.millis(20, 500),
        waiting: dice.small(1, 40),
        unleased: dice.small(1, 6),
        kv_blocks: BlockCount(dice.small(4, 64)),
        rules: rules(dice),
    };
    let rung = dice.one_of(&Rung::ALL);
    limits = rung.limits(limits);
    if limits.rules.output_cap.is_some() {
        limits.rules.output_cap = Some(dice.small(8, 128));
    }
    let layout = if dice.one_in(2) {
        Layout::Unified
    } else {
        Layout::Streams { token_bytes: 10, bytes_max: dice.between(0, 20_000) }
    };
    let owners = dice.small(0, 24);
    let (kind, kv) = rung.core(&limits, layout, owners);
    let believed = StepCost { gain: 0.5 + dice.0.unit(), ..StepCost::GUESS };
    let mut truth = Truth::busy(StepCost { gain: 0.1 + dice.0.unit(), ..StepCost::GUESS });
    if dice.one_in(3) {
        truth.speeds = vec![(dice.within(Span::from_secs(10)), 0.25 + 4.0 * dice.0.unit())];
    }
    EngineSpec { limits, kind, kv, believed, truth }
}

fn rules(dice: &mut Dice) -> Rules {
    Rules {
        order: dice.one_of(&[Order::DecodeFirst, Order::PrefillFirst]),
        reservation: dice.one_of(&[Reservation::Full, Reservation::Grow]),
        lateness: dice.one_of(&[Lateness::Finish, Lateness::AbortBestEffort, Lateness::AbortAll]),
        itl: dice.one_of(&[None, Some(Span::from_millis(60)), Some(Span::from_millis(200))]),
        ..Rules::default()
    }
}

fn admission(dice: &mut Dice) -> Settings {
    let limit = AdmissionLimits { requests: dice.between(0, 12), tokens: 0, blocks: 0 };
    Settings {
        policy: dice.one_of(&[Policy::Off, Policy::Limit(limit), Policy::Limit(limit)]),
        lease: dice.millis(50, 1_500),
        patience: dice.millis(0, 2_000),
        budget: dice.millis(500, 30_000),
        held_max: usize::try_from(dice.between(0, 64)).unwrap_or(0),
        standalone_max: 0,
    }
}

fn clients(dice: &mut Dice, seed: u64, lasts: Span) -> Clients {
    let rate = 0.5 + 15.0 * dice.0.unit() * dice.0.unit();
    let burstiness = 0.05 + 2.0 * dice.0.unit();
    let schedule = Arrivals::Gamma { rate, burstiness }.schedule(lasts, seed);
    let mut arrivals = schedule.unwrap_or_default();
    arrivals.truncate(REQUESTS_MAX);
    let mut leaving = Vec::new();
    for index in 0..arrivals.len() as u64 {
        if dice.one_in(8) {
            leaving.push((index, dice.millis(0, 4_000)));
        }
    }
    let scale = 0.02 + 0.2 * dice.0.unit();
    let maybe = |dice: &mut Dice, most| dice.one_in(2).then(|| dice.millis(100, most));
    Clients {
        arrivals,
        source: Source::Mix(Mix::cadence().scaled(scale)),
        seed,
        max_tokens: None,
        natural: match dice.one_in(2) {
            true => Natural::Cap,
            false => Natural::Drawn(Lengths::Between { min: TokenCount(1), max: TokenCount(40) }),
        },
        budgets: Budgets {
            e2e: maybe(dice, 20_000),
            ttft: maybe(dice, 5_000),
            patience: maybe(dice, 2_000),
        },
        accept_best_effort: dice.one_in(2),
        timeout: dice.millis(5_000, 60_000),
        retries: dice.one_in(2),
        leaving,
    }
}

fn wires(dice: &mut Dice) -> Wires {
    let mut delay = |most: u64| Delay {
        fixed: Span(dice.between(0, most)),
        jitter: Span(dice.between(0, most)),
    };
    Wires {
        client: delay(50_000),
        decide: delay(5_000),
        generate: delay(5_000),
        watch: delay(20_000),
        prepare: delay(10_000),
    }
}

fn faults(dice: &mut Dice, engines: usize, lasts: Span) -> Vec<Fault> {
    let count = dice.one_of(&[0, 0, 1, 2, 4]);
    let mut faults: Vec<Fault> =
        (0..count).map(|_| Fault { at: dice.within(lasts), kind: fault(dice, engines) }).collect();
    faults.sort_by_key(|fault| fault.at);
    faults
}

fn fault(dice: &mut Dice, engines: usize) -> FaultKind {
    let engine = usize::try_from(dice.0.below(engines as u64)).unwrap_or(0);
    let link = dice.one_of(&[Link::Watch(engine), Link::Decide, Link::Generate(engine)]);
    match dice.between(0, 6) {
        0 => FaultKind::EngineDies { engine, down: dice.millis(1, 5_000) },
        1 => FaultKind::EngineFreezes { engine, still: dice.millis(1, 8_000) },
        2 => FaultKind::StepsFail { engine, steps: dice.small(1, 9) },
        3 => FaultKind::AdmissionDies { down: dice.millis(1, 5_000) },
        4 => FaultKind::Lost { link, lasts: dice.millis(1, 4_000) },
        5 => FaultKind::Late { link, lasts: dice.millis(1, 4_000), by: dice.millis(1, 2_000) },
        _ => FaultKind::AdmissionClockJumps { by: dice.millis(1, 10_000) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_one_world_and_worlds_differ() {
        assert_eq!(draw(3), draw(3));
        assert_ne!(draw(3), draw(4));
    }

    #[test]
    fn every_world_is_within_the_bounds_of_an_engine() {
        for seed in 0..500 {
            let world = draw(seed);
            for EngineSpec { limits, .. } in &world.engines {
                assert!(limits.batch_tokens >= limits.slots, "{seed}");
                assert!(limits.batch_tokens >= limits.prefill_tokens, "{seed}");
            }
            assert!(world.faults.is_sorted_by_key(|fault| fault.at), "{seed}");
        }
    }
}
