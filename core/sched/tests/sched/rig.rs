//! A scheduler and the mock, with books of their own about what was said.

use std::{collections::BTreeMap, sync::Arc};

use kv::{Kind, Layout, Options};
use sample::Sampling;
use sched::{
    Answers, Command, Decode, Engine as _, EngineError, Event, FinishReason, Join, Limits,
    MockEngine, Prefill, Scheduler, StepCost, StepOutcome, StepPlan, Submission, Tier, Usage,
};
use units::{BlockCount, Micros, Owner, RequestId, Slot, Span, Token};

pub(crate) const STREAMS: Layout = Layout::Streams { token_bytes: 100, bytes_max: 100_000 };

/// What is tried.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) limits: Limits,
    pub(crate) cost: StepCost,
    pub(crate) kind: Kind,
    pub(crate) layout: Layout,
    pub(crate) owners: u32,
    pub(crate) prefixes: bool,
    /// Tokens of every answer; 0: as many as its cap allows.
    pub(crate) answer: u32,
}

impl Setup {
    pub(crate) fn scheduler(&self) -> Scheduler {
        let options = Options {
            blocks: self.limits.kv_blocks,
            layout: self.layout,
            owners: self.owners,
            prefixes: self.prefixes,
        };
        Scheduler::new(self.limits, self.cost, self.kind.build(options))
    }

    pub(crate) fn engine(&self) -> MockEngine {
        MockEngine::new(self.limits.slots, self.cost, answers(self.answer))
    }
}

fn answers(tokens: u32) -> Answers {
    Answers { words: 10..20, end: Token(1), tokens }
}

/// How a step goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Luck {
    Good,
    /// The backend fails, after the moves.
    Fails,
    /// The plan is refused.
    Refused,
    /// One of the moves fails.
    Loses,
}

#[derive(Debug)]
pub(crate) struct Rig {
    pub(crate) scheduler: Scheduler,
    pub(crate) engine: MockEngine,
    pub(crate) now: Micros,
    answer: u32,
    /// Of those that have not ended: prompt and cap.
    pub(crate) open: BTreeMap<RequestId, (Arc<[Token]>, u32)>,
    /// Of all: what they have said.
    pub(crate) said: BTreeMap<RequestId, Vec<Token>>,
    pub(crate) ended: BTreeMap<RequestId, (FinishReason, Usage, Micros)>,
    pub(crate) refused: usize,
}

impl Rig {
    pub(crate) fn new(setup: &Setup) -> Self {
        Self {
            scheduler: setup.scheduler(),
            engine: setup.engine(),
            now: Micros(0),
            answer: setup.answer,
            open: BTreeMap::new(),
            said: BTreeMap::new(),
            ended: BTreeMap::new(),
            refused: 0,
        }
    }

    pub(crate) fn command(&mut self, command: Command) -> Vec<Event> {
        if let Command::Submit(submission) = &command {
            let submitted = (submission.prompt.clone(), submission.max_tokens);
            self.open.entry(submission.id).or_insert(submitted);
        }
        self.scheduler.on_command(self.now, command);
        self.listen()
    }

    /// Plans and runs a step. `None` if there is nothing to do now.
    pub(crate) fn step(&mut self, luck: Luck) -> Option<(StepPlan, Vec<Event>)> {
        let plan = self.scheduler.plan_step(self.now);
        self.check_plan(&plan);
        if plan.is_empty() {
            let events = self.listen();
            return (!events.is_empty()).then_some((plan, events));
        }
        let outcome = self.execute(&plan, luck);
        self.now += outcome.as_ref().map_or(Span::from_millis(20), |outcome| outcome.took);
        self.scheduler.commit_step(self.now, plan.clone(), outcome);
        Some((plan, self.listen()))
    }

    /// Runs until there is nothing to do, at most so many steps.
    pub(crate) fn run(&mut self, steps: usize) {
        for _ in 0..steps {
            if self.step(Luck::Good).is_none() && !self.sleep() {
                return;
            }
        }
        panic!("stuck with {:?}", self.scheduler.snapshot(self.now));
    }

    /// Goes to where something happens by itself.
    pub(crate) fn sleep(&mut self) -> bool {
        let next = self.scheduler.next_deadline();
        self.now = self.now.max(next.unwrap_or(self.now));
        next.is_some()
    }

    fn execute(&mut self, plan: &StepPlan, luck: Luck) -> Result<StepOutcome, EngineError> {
        if luck == Luck::Refused {
            return Err(EngineError::Unfit("as ordered".into()));
        }
        let losing = lost(plan).filter(|_| luck == Luck::Loses);
        let mut plan = plan.clone();
        plan.moves.retain(|made| losing.is_none() || named(made) != losing);
        let outcome = self.engine.execute(&plan);
        let outcome =
            outcome.unwrap_or_else(|error| panic!("a plan always fits: {error}: {plan:?}"));
        match luck {
            Luck::Fails => Err(EngineError::Backend("as ordered".into())),
            Luck::Good | Luck::Loses | Luck::Refused => {
                Ok(StepOutcome { lost: losing.into_iter().collect(), ..outcome })
            }
        }
    }

    /// SC-9, and that the first in the planning order gets a row.
    fn check_plan(&self, plan: &StepPlan) {
        assert_eq!(plan.rows(), (plan.shape.decodes + plan.shape.prefill) as usize);
        for join in &plan.joins {
            let (prompt, answer) = join.prompt_and_answer();
            assert_eq!(answer, self.said[&join.id], "SC-9: the answer before the preemption");
            assert_eq!(*prompt, *self.open[&join.id].0, "SC-9: the prompt");
        }
        let snapshot = self.scheduler.snapshot(self.now);
        let first = snapshot.sequences.first().filter(|_| snapshot.running > 0);
        let mut rows = plan.decodes.iter().map(|decode| decode.id);
        let mut pieces = plan.prefills.iter().map(|piece| piece.id);
        if let Some(first) = first {
            let moves = rows.any(|id| id == first.id) || pieces.any(|id| id == first.id);
            assert!(moves, "SC-12: {first:?} stands still");
        }
    }

    /// SC-8: accepted, then tokens, then finished once and last; SC-9: the answer is the one of a run that
    /// nobody disturbs.
    fn listen(&mut self) -> Vec<Event> {
        self.scheduler.check();
        let events = self.scheduler.drain_events();
        self.scheduler.drain_index();
        for event in &events {
            match event {
                Event::Accepted { id, .. } => {
                    assert!(self.said.insert(*id, Vec::new()).is_none(), "SC-8: accepted twice");
                }
                Event::Token { id, token, first } => {
                    let said = self.said.get_mut(id).expect("SC-8: a token of nobody");
                    assert_eq!(said.is_empty(), *first, "SC-8: the first token is said once");
                    said.push(*token);
                }
                Event::Started { id, .. } => assert!(self.open.contains_key(id), "SC-8"),
                Event::Finished { id, reason, usage, .. } => self.finished(*id, reason, *usage),
                Event::Refused { refusal, .. } => {
                    self.refused += 1;
                    assert_ne!(refusal.to_string(), "");
                }
                Event::Step(_) => {}
            }
        }
        for event in &events {
            if let Event::Refused { id, .. } = event
                && !self.said.contains_key(id)
            {
                self.open.remove(id);
            }
        }
        events
    }

    fn finished(&mut self, id: RequestId, reason: &FinishReason, usage: Usage) {
        let (prompt, cap) = self.open.remove(&id).expect("SC-8: ended twice, or never accepted");
        let said = &self.said[&id];
        assert_eq!(said.len(), usage.completion_tokens as usize);
        assert!(usage.cached_tokens < usage.prompt_tokens);
        let undisturbed = alone(&prompt, cap, self.answer);
        let whole = matches!(reason, FinishReason::Stop | FinishReason::Length);
        let due = if whole { &undisturbed[..] } else { &undisturbed[..said.len()] };
        assert_eq!(said, due, "SC-9: {id} of {} tokens", prompt.len());
        self.ended.insert(id, (reason.clone(), usage, self.now));
    }
}

/// The answer to a prompt that has an engine for itself.
pub(crate) fn alone(prompt: &Arc<[Token]>, cap: u32, tokens: u32) -> Vec<Token> {
    let mut engine = MockEngine::new(1, StepCost::GUESS, answers(tokens));
    let (slot, id) = (Slot(0), RequestId(0));
    let mut plan = StepPlan {
        joins: vec![Join {
            slot,
            id,
            sampling: Sampling::GREEDY,
            history: prompt.clone(),
            sampled: 0,
            top_logprobs: None,
            reuse: None,
        }],
        prefills: vec![Prefill {
            slot,
            id,
            prompt: prompt.clone(),
            range: 0..prompt.len(),
            last: true,
        }],
        ..StepPlan::default()
    };
    let mut said = Vec::new();
    let first = u32::try_from(prompt.len()).expect("short");
    for position in first..first + cap {
        let outcome = engine.execute(&plan).expect("it fits");
        let sampled = &outcome.sampled[0];
        said.push(sampled.token);
        if sampled.stop {
            break;
        }
        let decodes = vec![Decode { slot, id, token: sampled.token, position }];
        plan = StepPlan { decodes, ..StepPlan::default() };
    }
    said
}

/// A request of best effort.
pub(crate) fn request(id: u128, now: Micros, prompt: Vec<Token>, max_tokens: u32) -> Submission {
    Submission {
        id: RequestId(id),
        submitted_at: now,
        prompt: prompt.into(),
        sampling: Sampling::GREEDY,
        top_logprobs: None,
        max_tokens,
        tier: Tier::BestEffort,
        epoch: Some(1),
        deadline: None,
        first_token: None,
        evict: Vec::new(),
    }
}

pub(crate) const fn blocks(count: u32) -> BlockCount {
    BlockCount(count)
}

/// An owner of a plan that can be lost without making the rest of it wrong.
fn lost(plan: &StepPlan) -> Option<Owner> {
    let reused = |owner| plan.joins.iter().any(|it| it.reuse.is_some_and(|it| it.owner == owner));
    let once = |owner| plan.moves.iter().filter(|made| named(made) == Some(owner)).count() == 1;
    let keeps = plan.moves.iter().filter(|made| matches!(made, sched::Move::Keep { .. }));
    keeps.filter_map(named).find(|&owner| once(owner) && !reused(owner))
}

fn named(made: &sched::Move) -> Option<Owner> {
    match made {
        sched::Move::Keep { owner, .. }
        | sched::Move::Cut { owner, .. }
        | sched::Move::Drop { owner } => Some(*owner),
        sched::Move::Leave { .. } => None,
    }
}
