//! Questions: what does a decision of a twin cost at 24 running and 8 held, what does a refusal cost that has to look at everybody who waits, and what does an
//! admission cost with its withdrawal?

use std::{hint::black_box, sync::Arc};

use admit::{
    Attempt, Budget, Candidate, Controller, Ended, EngineId, EngineLimits, Event, How, KvUsage,
    Limits, Offer, PLANNER_VERSION, Phase, Policy, Record, Rules, Sequence, Settings, Snapshot,
    Source, Step, StepCost, Submitted, Tier, Twin,
};
use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;
use units::{BlockCount, Micros, RequestId, Span, TokenCount};

const NOW: Micros = Micros(0);

fn snapshot() -> Snapshot {
    Snapshot {
        instance: "e1".into(),
        taken_at: NOW,
        step: 0,
        record: 0,
        planner: "p1".into(),
        limits: EngineLimits {
            slots: 24,
            context: TokenCount(4_096),
            batch: TokenCount(512),
            prefill: TokenCount(512),
            step: Span::from_millis(500),
            waiting: 256,
            kv: BlockCount(6_144),
        },
        rules: None,
        cost: StepCost::default(),
        kv: KvUsage { free: BlockCount(6_144), ..KvUsage::default() },
        sequences: Vec::new(),
        draining: false,
    }
}

fn offer(number: u128, patience: Span) -> Offer {
    Offer {
        attempt: Attempt { id: RequestId(number), number: 0 },
        candidates: vec![Candidate {
            source: Source::Watched("e1".into()),
            cached: TokenCount(0),
            answers: Vec::new(),
        }],
        prompt: TokenCount(500),
        max_tokens: TokenCount(100),
        budget: Budget::default(),
        patience: Some(patience),
        accept_best_effort: false,
        tenant: "".into(),
        priority: 0,
        unix: Micros(0),
    }
}

/// A controller with `inside` requests let in and `held` waiting.
fn controller(inside: u64, held: u64) -> (Controller, ChaCha8Rng) {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut controller = Controller::new(Settings {
        policy: Policy::Limit(Limits { requests: 24, ..Limits::default() }),
        lease: Span::from_secs(60),
        patience: Span::from_secs(60),
        budget: Span::from_secs(60),
        held_max: 256,
        standalone_max: 0,
    });
    controller.attached(NOW, EngineId(0), 1, &Arc::from("e1"), Some(snapshot()));
    for number in 0..inside + held {
        controller.offer(NOW, offer(number.into(), Span::from_secs(60)), &mut rng);
    }
    black_box(controller.drain_effects());
    (controller, rng)
}

/// A controller of a twin whose engine has 24 running requests, half of them promised, and 8 that wait for
/// their verdict.
fn twin(policy: Twin) -> (Controller, ChaCha8Rng) {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut controller = Controller::new(Settings {
        policy: Policy::Twin(policy),
        lease: Span::from_secs(60),
        patience: Span::from_secs(60),
        budget: Span::from_secs(4),
        held_max: 256,
        standalone_max: 0,
    });
    let state = Snapshot {
        planner: PLANNER_VERSION.into(),
        rules: Some(Rules { itl: Some(Span::from_millis(200)), ..Rules::default() }),
        cost: StepCost {
            base: 3_000.0,
            per_decode: 1_500.0,
            per_prefill_token: 600.0,
            gain: 1.0,
            ..StepCost::default()
        },
        sequences: (0..24).map(running).collect(),
        ..snapshot()
    };
    controller.attached(NOW, EngineId(0), 1, &Arc::from("e1"), Some(state));
    for number in 0..400_u32 {
        let id = RequestId(500_000 + u128::from(number));
        let submitted = Submitted {
            prompt: TokenCount(500),
            max_tokens: TokenCount(200),
            tier: Tier::BestEffort,
            blocks: BlockCount(44),
        };
        let ended = Ended {
            how: How::Completed,
            completion: TokenCount(10 + number * 37 % 150),
            ttft: Some(Span::from_millis(100)),
            e2e: Span::from_secs(2),
        };
        for event in [Event::Submitted(id, submitted), Event::Finished(id, ended)] {
            controller.record(NOW, EngineId(0), Record { number: 0, event });
        }
    }
    for number in 0..8 {
        let held = offer(700_000 + number, Span::from_secs(60));
        let held = Offer { max_tokens: TokenCount(3_000), ..held };
        controller.offer(NOW, held, &mut rng);
    }
    black_box(controller.drain_effects());
    (controller, rng)
}

const STEP: Step = Step {
    took: Span::ZERO,
    decodes: TokenCount(23),
    prefill: TokenCount(0),
    cells: 0,
    prefill_cells: 0,
};

fn running(number: u32) -> Sequence {
    let generated = 5 + number * 3;
    Sequence {
        id: RequestId(u128::from(number) + 1),
        phase: if number == 23 { Phase::Prefill } else { Phase::Decode },
        tier: if number.is_multiple_of(2) { Tier::Promised } else { Tier::BestEffort },
        leased: true,
        prompt: TokenCount(560),
        computed: TokenCount(if number == 23 { 100 } else { 560 + generated }),
        generated: TokenCount(if number == 23 { 0 } else { generated }),
        max_tokens: TokenCount(generated + 30 + number),
        deadline: Some(NOW + Span::from_millis(4_500 + u64::from(number) * 20)),
        submitted_at: NOW,
        blocks: BlockCount(44),
        rests_until: None,
    }
}

fn twins(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("twin");
    for (name, policy) in [("twin", Twin::CAPS), ("twin-mc", Twin::SCENARIOS), ("full", Twin::FULL)]
    {
        for (what, cap) in [("small", 20), ("middling", 60), ("large", 3_000)] {
            let (controller, rng) = twin(policy);
            let mut number = 1_000_000;
            group.bench_function(format!("{name}: a {what} one, 24 running, 8 held"), |bencher| {
                let fresh = || {
                    number += 1;
                    let asked = offer(number, Span::from_secs(60));
                    let asked = Offer { max_tokens: TokenCount(cap), ..asked };
                    // A step makes every decision about the state before it void.
                    let mut controller = controller.clone();
                    let shape = Step { took: Span::from_millis(40), ..STEP };
                    let record = Record { number: 1, event: Event::Step(shape) };
                    controller.record(NOW, EngineId(0), record);
                    (controller, asked, rng.clone())
                };
                let decide = |(controller, asked, rng): &mut (Controller, Offer, ChaCha8Rng)| {
                    black_box(controller.offer(NOW, asked.clone(), rng))
                };
                bencher.iter_batched_ref(fresh, decide, BatchSize::SmallInput);
            });
        }
    }
    group.finish();
}

fn decide(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("decide");
    for held in [0, 8, 256] {
        let (mut full, mut rng) = controller(24, held);
        let mut number = 1_000_000;
        group.bench_function(format!("refuse, 24 inside, {held} held"), |bencher| {
            bencher.iter(|| {
                number += 1;
                let verdict = full.offer(NOW, offer(number, Span::ZERO), &mut rng);
                black_box(full.drain_effects());
                black_box(verdict)
            });
        });
    }
    let (mut room, mut rng) = controller(12, 0);
    let mut number = 1_000_000;
    group.bench_function("admit and withdraw, 12 inside", |bencher| {
        bencher.iter(|| {
            number += 1;
            let verdict = room.offer(NOW, offer(number, Span::ZERO), &mut rng);
            room.withdraw(NOW, Attempt { id: RequestId(number), number: 0 });
            black_box(room.drain_effects());
            black_box(verdict)
        });
    });
    group.finish();
}

criterion_group!(benches, decide, twins);
criterion_main!(benches);
