//! What a step allocates once answers only go on: counted, because every allocation of every step is paid
//! for by every token.

use allocation_counter::measure;
use kv::{Kind, Layout, Options};
use sample::Sampling;
use sched::{
    Answers, Command, Engine as _, Limits, MockEngine, Rules, Scheduler, StepCost, Submission, Tier,
};
use units::{BlockCount, Micros, RequestId, Span, Token};

const DECODES: u32 = 8;
const STEPS: u32 = 64;

struct World {
    scheduler: Scheduler,
    engine: MockEngine,
    now: Micros,
}

impl World {
    /// Eight answers that go on for long.
    fn new() -> Self {
        let limits = Limits {
            slots: DECODES,
            context_tokens: 2_048,
            batch_tokens: 512,
            prefill_tokens: 512,
            step: Span::from_millis(500),
            waiting: 16,
            unleased: 16,
            kv_blocks: BlockCount(2_048),
            rules: Rules::default(),
        };
        let layout = Layout::Streams { token_bytes: 100, bytes_max: 1 << 20 };
        let options = Options { blocks: limits.kv_blocks, layout, owners: 64, prefixes: true };
        let answers = Answers { words: 10..20, end: Token(1), tokens: 0 };
        let mut world = Self {
            scheduler: Scheduler::new(limits, StepCost::GUESS, Kind::Paged.build(options)),
            engine: MockEngine::new(DECODES, StepCost::GUESS, answers),
            now: Micros(0),
        };
        for id in 0..DECODES {
            world.submit(id);
        }
        for _ in 0..64 {
            world.step();
        }
        world
    }

    fn submit(&mut self, id: u32) {
        let submission = Submission {
            id: RequestId(id.into()),
            submitted_at: self.now,
            prompt: (0..40).map(|at| Token(100 * id + at)).collect(),
            sampling: Sampling::GREEDY,
            top_logprobs: None,
            max_tokens: 1_000,
            tier: Tier::BestEffort,
            epoch: Some(1),
            deadline: None,
            first_token: None,
            evict: Vec::new(),
        };
        self.scheduler.on_command(self.now, Command::Submit(submission));
    }

    /// Allocations of the scheduler, and of the mock.
    fn step(&mut self) -> [u64; 2] {
        let Self { scheduler, engine, now } = self;
        let mut plan = None;
        let planning = measure(|| plan = Some(scheduler.plan_step(*now)));
        let plan = plan.expect("it was planned");
        let mut outcome = None;
        let executing = measure(|| outcome = Some(engine.execute(&plan).expect("it fits")));
        let outcome = outcome.expect("it was run");
        *now += outcome.took;
        let committing = measure(|| {
            scheduler.commit_step(*now, plan, Ok(outcome));
            drop(scheduler.drain_events());
            drop(scheduler.drain_index());
        });
        [planning.count_total + committing.count_total, executing.count_total]
    }
}

#[test]
fn a_step_of_answers_allocates_next_to_nothing() {
    let mut world = World::new();
    let steps: Vec<[u64; 2]> = (0..STEPS).map(|_| world.step()).collect();
    let most = |of: usize| steps.iter().map(|step| step[of]).max().unwrap_or(0);
    let mean = |of: usize| steps.iter().map(|step| step[of]).sum::<u64>() as f64 / f64::from(STEPS);
    println!(
        "scheduler: {} (at most {}), mock: {} (at most {})",
        mean(0),
        most(0),
        mean(1),
        most(1)
    );
    // Lists of those who run (twice), of rows in solution and plan, and of events. Answers grow their
    // buffers by doubling, so that some step now and then has one more for each.
    assert!(mean(0) <= 6.0, "{steps:?}");
    assert!(most(0) <= 5 + u64::from(DECODES), "{steps:?}");
}
