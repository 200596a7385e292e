//! Random commands against one scheduler: every request ends exactly once and nothing leaks.

use std::collections::BTreeMap;

use proptest::prelude::*;
use sample::Sampling;
use sched::{
    Answers, Command, Engine as _, EngineError, Event, Limits, MockEngine, Scheduler, StepCost,
    Submission, Tier,
};
use units::{BlockCount, Micros, RequestId, Span, Token};

#[derive(Clone, Debug)]
enum Action {
    Submit {
        id: u8,
        prompt: u8,
        cap: u8,
        promised: bool,
        leased: bool,
        budget: Option<u16>,
        evict: u8,
    },
    Cancel(u8),
    Step,
    FailedStep,
    Wait(u16),
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let submit =
        (0u8..12, 1u8..90, 1u8..12, any::<(bool, bool)>(), prop::option::of(0u16..400), 0u8..24)
            .prop_map(|(id, prompt, cap, (promised, leased), budget, evict)| Action::Submit {
                id,
                prompt,
                cap,
                promised,
                leased,
                budget,
                evict,
            });
    let action = prop_oneof![
        4 => submit,
        1 => (0u8..12).prop_map(Action::Cancel),
        6 => Just(Action::Step),
        1 => Just(Action::FailedStep),
        1 => (0u16..300).prop_map(Action::Wait),
    ];
    prop::collection::vec(action, 0..120)
}

struct World {
    scheduler: Scheduler,
    engine: MockEngine,
    now: Micros,
    open: BTreeMap<RequestId, bool>,
    answers: BTreeMap<RequestId, Vec<Token>>,
}

impl World {
    fn new() -> Self {
        let cost = StepCost::GUESS;
        let limits = Limits {
            slots: 3,
            context_tokens: 128,
            batch_tokens: 64,
            prefill_tokens: 48,
            step: Span::from_millis(120),
            waiting: 5,
            unleased: 3,
            kv_blocks: BlockCount(14),
        };
        let answers = Answers { words: 10..20, end: Token(1), tokens: 7 };
        Self {
            scheduler: Scheduler::new(limits, cost),
            engine: MockEngine::new(3, cost, answers),
            now: Micros(0),
            open: BTreeMap::new(),
            answers: BTreeMap::new(),
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Submit { id, prompt, cap, promised, leased, budget, evict } => {
                let submission = Submission {
                    id: RequestId(id.into()),
                    submitted_at: self.now,
                    prompt: (0..prompt).map(|at| Token(u32::from(at % 7))).collect(),
                    sampling: Sampling::GREEDY,
                    top_logprobs: None,
                    max_tokens: cap.into(),
                    tier: if promised { Tier::Promised } else { Tier::BestEffort },
                    epoch: leased.then_some(1),
                    deadline: budget.map(|budget| self.now + Span::from_millis(budget.into())),
                    first_token: None,
                    evict: vec![RequestId(evict.into())],
                };
                self.scheduler.on_command(self.now, Command::Submit(submission));
            }
            Action::Cancel(id) => {
                self.scheduler.on_command(self.now, Command::Cancel(RequestId(id.into())));
            }
            Action::Step => {
                self.step(false);
            }
            Action::FailedStep => {
                self.step(true);
            }
            Action::Wait(millis) => self.now += Span::from_millis(millis.into()),
        }
        self.listen();
    }

    fn step(&mut self, fails: bool) -> bool {
        let plan = self.scheduler.plan_step(self.now);
        if plan.is_empty() {
            return false;
        }
        assert!(
            plan.rows() <= 64 && plan.rows() == (plan.shape.decodes + plan.shape.prefill) as usize
        );
        for join in &plan.joins {
            let (prompt, answer) = join.prompt_and_answer();
            assert_eq!(answer, self.answers[&join.id], "SC-9: the answer before the eviction");
            assert!((0u32..).zip(prompt).all(|(at, token)| token.0 == at % 7), "SC-9");
        }
        let mut outcome = self.engine.execute(&plan);
        assert!(outcome.is_ok(), "a plan always fits its engine: {outcome:?}");
        if fails {
            outcome = Err(EngineError::Backend("a fault".into()));
        }
        self.now += Span::from_millis(20);
        self.scheduler.commit_step(self.now, plan, outcome);
        true
    }

    /// SC-8: `Accepted`, then anything, then `Finished` once and last.
    fn listen(&mut self) {
        self.scheduler.check();
        for event in self.scheduler.drain_events() {
            match event {
                Event::Accepted { id, .. } => {
                    assert_eq!(self.open.insert(id, false), None, "SC-8: {id} accepted twice");
                    self.answers.insert(id, Vec::new());
                }
                Event::Token { id, token, first } => {
                    self.answers.get_mut(&id).expect("SC-8: a token of nobody").push(token);
                    let seen = self.open.get_mut(&id).expect("SC-8: a token of nobody");
                    assert_ne!(*seen, first, "SC-8: the first token is said once");
                    *seen = true;
                }
                Event::Started { id } => assert!(self.open.contains_key(&id), "SC-8"),
                Event::Finished { id, usage, .. } => {
                    assert!(self.open.remove(&id).is_some(), "SC-8: {id} ended twice");
                    assert!(usage.completion_tokens <= 11);
                }
                Event::Refused { .. } | Event::Step(_) => {}
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_request_ends_once_and_nothing_leaks(actions in actions()) {
        let mut world = World::new();
        for action in actions {
            world.act(action);
        }
        let mut steps = 0;
        while world.step(false) {
            world.listen();
            steps += 1;
            prop_assert!(steps < 2_000, "stuck");
        }
        world.listen();
        prop_assert!(world.open.is_empty(), "SC-8: never ended: {:?}", world.open);
        let idle = world.scheduler.snapshot(world.now);
        prop_assert_eq!(idle.kv.held, BlockCount(0));
        prop_assert!(idle.sequences.is_empty());
    }
}
