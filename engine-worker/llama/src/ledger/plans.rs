//! The scheduler's plans against the ledger: whatever the scheduler's books say is free, is.

use kv::{Kind, Layout, Options};
use proptest::prelude::*;
use sample::Sampling;
use sched::{
    Answers, Command, Engine as _, MockEngine, Reservation, Rules, Scheduler, StepCost, StepPlan,
    Submission, Tier,
};
use units::{BlockCount, Micros, RequestId, Span};

use super::*;

const SLOTS: u32 = 3;
const OWNERS: u32 = 5;
const BLOCKS: BlockCount = BlockCount(14);
const VOCABULARY: usize = 100;

struct World {
    scheduler: Scheduler,
    engine: MockEngine,
    ledger: Ledger,
    now: Micros,
    requests: u128,
}

impl World {
    fn new(layout: Layout, reservation: Reservation) -> Self {
        let limits = sched::Limits {
            slots: SLOTS,
            context_tokens: 160,
            batch_tokens: 64,
            prefill_tokens: 48,
            step: Span::from_secs(1),
            waiting: 20,
            unleased: 20,
            kv_blocks: BLOCKS,
            rules: Rules { reservation, ..Rules::default() },
        };
        let options = Options { blocks: BLOCKS, layout, owners: OWNERS, prefixes: true };
        let cells = (layout == Layout::Unified).then_some(BLOCKS.tokens().0);
        let answers = Answers { words: 10..20, end: Token(1), tokens: 0 };
        Self {
            scheduler: Scheduler::new(limits, StepCost::GUESS, Kind::Paged.build(options)),
            engine: MockEngine::new(SLOTS, StepCost::GUESS, answers),
            ledger: Ledger::new(Limits {
                slots: SLOTS,
                owners: OWNERS,
                context_tokens: 160,
                cells,
                rows: 64,
                vocabulary: VOCABULARY,
            }),
            now: Micros(0),
            requests: 0,
        }
    }

    /// One of a few prompts, cut somewhere, so that prefixes are shared.
    fn submit(&mut self, kind: u32, tokens: u32, cap: u32) {
        self.requests += 1;
        let at = |at: u32| Token(at % 7 + if at > 40 { kind } else { kind / 3 });
        self.scheduler.on_command(
            self.now,
            Command::Submit(Submission {
                id: RequestId(self.requests),
                submitted_at: self.now,
                prompt: (0..tokens).map(at).collect(),
                sampling: Sampling::GREEDY,
                top_logprobs: None,
                max_tokens: cap,
                tier: if kind == 0 { Tier::Promised } else { Tier::BestEffort },
                epoch: Some(1),
                deadline: None,
                first_token: None,
                evict: Vec::new(),
            }),
        );
    }

    fn step(&mut self) -> Result<(), String> {
        let plan: StepPlan = self.scheduler.plan_step(self.now);
        if plan.is_empty() {
            return Ok(());
        }
        self.ledger.note(&plan).map_err(|error| format!("step {}: {error}", plan.number))?;
        let outcome = self.engine.execute(&plan);
        self.now += plan.predicted;
        self.scheduler.commit_step(self.now, plan, outcome);
        Ok(())
    }
}

fn act(world: &mut World, (kind, tokens, cap, what): (u32, u32, u32, u8)) -> Result<(), String> {
    match what {
        0..3 => world.submit(kind, tokens, cap),
        3 => {
            let id = RequestId(world.requests.saturating_sub(u128::from(tokens % 5)));
            world.scheduler.on_command(world.now, Command::Cancel(id));
        }
        _ => world.step()?,
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_plan_asks_for_what_is_not_there(
        unified in any::<bool>(),
        grow in any::<bool>(),
        actions in prop::collection::vec((0u32..6, 1u32..100, 1u32..40, 0u8..14), 1..150),
    ) {
        let streams = Layout::Streams { token_bytes: 1, bytes_max: 400 };
        let layout = if unified { Layout::Unified } else { streams };
        let mut world = World::new(layout, if grow { Reservation::Grow } else { Reservation::Full });
        for action in actions {
            prop_assert_eq!(act(&mut world, action), Ok(()));
        }
    }
}
