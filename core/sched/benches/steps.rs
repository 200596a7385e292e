//! What the scheduler costs: the plan of a step with a long queue behind it, and whole runs over either
//! core.

use std::{hint::black_box, time::Duration};

use criterion::{
    BenchmarkId, Criterion, Throughput, criterion_group, criterion_main,
    measurement::{Measurement as _, WallTime},
};
use kv::{Kind, Layout, Options};
use sample::Sampling;
use sched::{
    Answers, Command, Engine as _, Event, Limits, MockEngine, Order, Reservation, Rules, Scheduler,
    StepCost, StepPlan, Submission, Tier,
};
use trace::{Arrival, arrivals, text};
use units::{BlockCount, Micros, RequestId, Span, Token};

#[path = "../tests/sched/trace.rs"]
mod trace;

const SLOTS: u32 = 24;

fn limits(blocks: u32, rules: Rules) -> Limits {
    Limits {
        slots: SLOTS,
        context_tokens: 2_048,
        batch_tokens: 512,
        prefill_tokens: 512,
        step: Span::from_millis(500),
        waiting: 10_000,
        unleased: 10_000,
        kv_blocks: BlockCount(blocks),
        rules,
    }
}

struct World {
    scheduler: Scheduler,
    engine: MockEngine,
    now: Micros,
    next: u128,
}

impl World {
    fn new(kind: Kind, limits: Limits) -> Self {
        let options = Options {
            blocks: limits.kv_blocks,
            layout: Layout::Unified,
            owners: 200,
            prefixes: true,
        };
        let answers = Answers { words: 10..20, end: Token(1), tokens: 0 };
        Self {
            scheduler: Scheduler::new(limits, StepCost::GUESS, kind.build(options)),
            engine: MockEngine::new(limits.slots, StepCost::GUESS, answers),
            now: Micros(0),
            next: 0,
        }
    }

    fn submit(&mut self, prompt: Vec<Token>, max_tokens: u32, tier: Tier) {
        self.next += 1;
        let submission = Submission {
            id: RequestId(self.next),
            submitted_at: self.now,
            prompt: prompt.into(),
            sampling: Sampling::GREEDY,
            top_logprobs: None,
            max_tokens,
            tier,
            epoch: Some(1),
            deadline: Some(self.now + Span::from_secs(100_000)),
            first_token: None,
            evict: Vec::new(),
        };
        self.scheduler.on_command(self.now, Command::Submit(submission));
    }

    /// Runs a plan and says how many requests ended.
    fn run(&mut self, plan: StepPlan) -> usize {
        let outcome = self.engine.execute(&plan);
        self.now += outcome.as_ref().expect("a plan fits").took;
        self.scheduler.commit_step(self.now, plan, outcome);
        self.scheduler.drain_index();
        let events = self.scheduler.drain_events();
        events.iter().filter(|event| matches!(event, Event::Finished { .. })).count()
    }

    /// Whether there was something to do.
    fn step(&mut self) -> bool {
        let plan = self.scheduler.plan_step(self.now);
        let works = !plan.is_empty();
        if works {
            self.run(plan);
        }
        works
    }
}

/// What requests of a case want.
#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    blocks: u32,
    rules: Rules,
    tier: Tier,
    answer: u32,
}

/// A request of 500 tokens, 400 of which others have as well.
fn long(world: &mut World, case: Case) {
    let name = u32::try_from(world.next % 100_000).expect("small");
    let prompt = text(name % 40, 400).chain(text(100 + name, 100)).collect();
    world.submit(prompt, case.answer, case.tier);
}

/// A full machine and 1,000 who wait.
fn crowded(case: Case) -> World {
    let mut world = World::new(Kind::Paged, limits(case.blocks, case.rules));
    for _ in 0..1_000 + SLOTS {
        long(&mut world, case);
    }
    for _ in 0..300 {
        world.step();
    }
    world
}

fn plans(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("plan");
    let rules = Rules::default();
    let growing = Rules { reservation: Reservation::Grow, ..rules };
    let prompts_first = Rules { order: Order::PrefillFirst, ..rules };
    let crowd = Case {
        name: "24 running, 1000 waiting",
        blocks: 4_096,
        rules,
        tier: Tier::BestEffort,
        answer: 1_000,
    };
    let cases = [
        crowd,
        Case { name: "24 running, 1000 promises waiting", tier: Tier::Promised, ..crowd },
        Case { name: "one joins every step", answer: 24, ..crowd },
        Case { name: "prompts first", rules: prompts_first, ..crowd },
        Case { name: "no blocks left", blocks: 1_200, ..crowd },
        Case { name: "growing under pressure", blocks: 1_200, rules: growing, ..crowd },
    ];
    for case in cases {
        let mut world = crowded(case);
        group.bench_function(case.name, |bencher| {
            bencher.iter_custom(|steps| {
                let mut spent = Duration::ZERO;
                for _ in 0..steps {
                    let begun = WallTime.start();
                    let plan = black_box(world.scheduler.plan_step(world.now));
                    spent += WallTime.end(begun);
                    for _ in 0..world.run(plan) {
                        long(&mut world, case);
                    }
                }
                spent
            });
        });
    }
    group.finish();
}

/// Runs a trace to its end and says how many steps that took.
fn run(kind: Kind, trace: &[Arrival]) -> u64 {
    let mut world = World::new(kind, limits(1_024, Rules::default()));
    let mut rest = trace.iter().peekable();
    let mut steps = 0;
    loop {
        while let Some(arrival) = rest.next_if(|arrival| arrival.at <= world.now) {
            world.submit(arrival.prompt.clone(), arrival.answer, Tier::BestEffort);
        }
        if world.step() {
            steps += 1;
        } else if let Some(next) = rest.peek() {
            world.now = next.at;
        } else {
            return steps;
        }
    }
}

/// More than the modelled machine can serve, so that batches are full.
fn runs(criterion: &mut Criterion) {
    let trace = arrivals(1, 300, 2.0);
    let mut group = criterion.benchmark_group("run");
    group.sample_size(10);
    for kind in [Kind::Naive, Kind::Paged] {
        group.throughput(Throughput::Elements(run(kind, &trace)));
        group.bench_function(BenchmarkId::from_parameter(format!("{kind:?}")), |bencher| {
            bencher.iter(|| run(kind, black_box(&trace)));
        });
    }
    group.finish();
}

criterion_group!(benches, plans, runs);
criterion_main!(benches);
