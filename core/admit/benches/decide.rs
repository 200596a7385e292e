//! Questions: what does a refusal cost that has to look at everybody who waits, and what does an
//! admission cost with its withdrawal?

use std::{hint::black_box, sync::Arc};

use admit::{
    Attempt, Budget, Candidate, Controller, EngineId, EngineLimits, KvUsage, Limits, Offer, Policy,
    Settings, Snapshot, Source, StepCost,
};
use criterion::{Criterion, criterion_group, criterion_main};
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

criterion_group!(benches, decide);
criterion_main!(benches);
