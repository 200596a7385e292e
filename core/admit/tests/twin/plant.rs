//! A scheduler, the mock and a controller around one clock.

use std::{collections::BTreeMap, sync::Arc};

use admit::{
    Attempt, Budget, Candidate, Controller, Effect, Ended, EngineId, EngineLimits, How, KvUsage,
    Offer, Phase, Policy, Record, Sequence, Settings, Snapshot, Source, Step, Submitted, Tier,
    Verdict,
};
use kv::{Kind, Layout, Options};
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;
use sample::Sampling;
use sched::{
    Answers, Command, Engine as _, Event, FinishReason, Limits, MockEngine, PLANNER_VERSION, Rules,
    Scheduler, StepCost, StepOutcome, StepPlan, Submission,
};
use units::{BlockCount, Micros, RequestId, Span, Token, TokenCount};

use crate::asks::Ask;

const ENGINE: EngineId = EngineId(0);

/// What became of a request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fate {
    /// Absent: refused, or never answered.
    pub(crate) tier: Option<Tier>,
    pub(crate) refusal: Option<String>,
    pub(crate) deadline: Micros,
    /// When its whole answer was there.
    pub(crate) done: Option<Micros>,
}

impl Fate {
    pub(crate) fn is_kept(&self) -> bool {
        self.done.is_some_and(|done| done <= self.deadline)
    }
}

pub(crate) struct Plant {
    pub(crate) controller: Controller,
    pub(crate) fates: BTreeMap<RequestId, Fate>,
    scheduler: Scheduler,
    mock: MockEngine,
    /// What the truth is times what the model says.
    slower: f64,
    now: Micros,
    rng: ChaCha8Rng,
    record: u64,
    inbox: Vec<Submission>,
    in_flight: Option<(Micros, StepPlan, StepOutcome)>,
    asks: BTreeMap<RequestId, Ask>,
}

pub(crate) fn limits() -> Limits {
    Limits {
        slots: 6,
        context_tokens: 1_000,
        batch_tokens: 64,
        prefill_tokens: 48,
        step: Span::from_millis(500),
        waiting: 32,
        unleased: 32,
        kv_blocks: BlockCount(120),
        rules: Rules { itl: Some(Span::from_millis(120)), ..Rules::default() },
    }
}

pub(crate) fn settings(policy: Policy) -> Settings {
    Settings {
        policy,
        lease: Span::from_secs(2),
        patience: Span::from_millis(500),
        budget: Span::from_secs(4),
        held_max: 64,
        standalone_max: 0,
    }
}

impl Plant {
    pub(crate) fn new(policy: Policy) -> Self {
        let limits = limits();
        let layout = Layout::Streams { token_bytes: 1, bytes_max: 0 };
        let options = Options { blocks: limits.kv_blocks, layout, owners: 0, prefixes: false };
        let scheduler = Scheduler::new(limits, StepCost::GUESS, Kind::Paged.build(options));
        let answers = Answers { words: 10..20, end: Token(1), tokens: 0 };
        let mut plant = Self {
            controller: Controller::new(settings(policy)),
            fates: BTreeMap::new(),
            scheduler,
            mock: MockEngine::new(limits.slots, StepCost::GUESS, answers),
            slower: 1.0,
            now: Micros(0),
            rng: ChaCha8Rng::seed_from_u64(1),
            record: 0,
            inbox: Vec::new(),
            in_flight: None,
            asks: BTreeMap::new(),
        };
        let state = plant.snapshot();
        plant.controller.attached(plant.now, ENGINE, 1, &Arc::from("e1"), Some(state));
        plant
    }

    pub(crate) fn slower(mut self, factor: f64) -> Self {
        self.slower = factor;
        self
    }

    /// Everybody asks, and time passes until the last has ended.
    pub(crate) fn run(&mut self, asks: &[Ask]) {
        let mut asks: Vec<Ask> = asks.to_vec();
        asks.sort_by_key(|ask| ask.at);
        let mut coming = asks.into_iter().peekable();
        loop {
            let next = [
                coming.peek().map(|ask| ask.at),
                self.in_flight.as_ref().map(|(end, ..)| *end),
                self.controller.next_deadline(),
                self.scheduler.next_deadline().filter(|_| self.in_flight.is_none()),
            ];
            let Some(next) = next.into_iter().flatten().min() else { return };
            self.now = self.now.max(next);
            if self.in_flight.as_ref().is_some_and(|(end, ..)| *end <= self.now) {
                self.end_step();
            }
            while let Some(ask) = coming.next_if(|ask| ask.at <= self.now) {
                self.ask(ask);
            }
            self.controller.tick(self.now, &mut self.rng);
            self.settle();
            self.begin_step();
            self.controller.check();
        }
    }

    fn ask(&mut self, ask: Ask) {
        let id = RequestId(self.asks.len() as u128);
        let deadline = self.now + ask.budget;
        let fate = Fate { tier: None, refusal: None, deadline, done: None };
        self.fates.insert(id, fate);
        let offer = Offer {
            attempt: Attempt { id, number: 0 },
            candidates: vec![Candidate {
                source: Source::Watched("e1".into()),
                cached: TokenCount(0),
                answers: Vec::new(),
            }],
            prompt: TokenCount(ask.prompt),
            max_tokens: TokenCount(ask.cap),
            budget: Budget { e2e: Some(ask.budget), ttft: None },
            patience: Some(ask.patience),
            accept_best_effort: ask.best_effort,
            tenant: "".into(),
            priority: 0,
            unix: Micros(0),
        };
        self.asks.insert(id, ask);
        if let Some(verdict) = self.controller.offer(self.now, offer, &mut self.rng) {
            self.hear(id, &verdict);
        }
        self.settle();
    }

    fn settle(&mut self) {
        for effect in self.controller.drain_effects() {
            match effect {
                Effect::Verdict(attempt, verdict) => self.hear(attempt.id, &verdict),
                Effect::Closed(_) | Effect::LeaseExpired(_) => {}
            }
        }
    }

    fn hear(&mut self, id: RequestId, verdict: &Verdict) {
        let fate = self.fates.get_mut(&id).expect("it asked");
        let admitted = match verdict {
            Verdict::Admitted(admitted) => admitted,
            Verdict::Refused(refused) => {
                fate.refusal = Some(refused.cause.to_string());
                return;
            }
            Verdict::Superseded { .. } => return,
        };
        fate.tier = Some(admitted.tier);
        let ask = &self.asks[&id];
        let first = u32::try_from(id.0).expect("few") + 100;
        self.inbox.push(Submission {
            id,
            submitted_at: self.now,
            prompt: vec![Token(first); ask.prompt as usize].into(),
            sampling: Sampling::GREEDY,
            top_logprobs: None,
            max_tokens: ask.answer.min(ask.cap),
            tier: match admitted.tier {
                Tier::Promised => sched::Tier::Promised,
                Tier::BestEffort => sched::Tier::BestEffort,
            },
            epoch: Some(1),
            deadline: Some(fate.deadline),
            first_token: None,
            evict: admitted.evict.clone(),
        });
    }

    fn begin_step(&mut self) {
        if self.in_flight.is_some() {
            return;
        }
        for submission in std::mem::take(&mut self.inbox) {
            self.scheduler.on_command(self.now, Command::Submit(submission));
        }
        let plan = self.scheduler.plan_step(self.now);
        self.tell();
        if !plan.is_empty() {
            let mut outcome = self.mock.execute(&plan).expect("a plan fits");
            outcome.took = outcome.took.mul_f64(self.slower);
            self.in_flight = Some((self.now + outcome.took, plan, outcome));
        }
        let state = self.snapshot();
        self.controller.snapshot(self.now, ENGINE, state);
        self.settle();
    }

    fn end_step(&mut self) {
        let Some((_, plan, outcome)) = self.in_flight.take() else { return };
        self.scheduler.commit_step(self.now, plan, Ok(outcome));
        self.tell();
    }

    /// Hands what happened to the controller.
    fn tell(&mut self) {
        for event in self.scheduler.drain_events() {
            let told = match event {
                Event::Accepted { id, tier, prompt_tokens, blocks, .. } => {
                    // The scheduler is told how long the answer is, so that it ends there.
                    let max_tokens = TokenCount(self.asks[&id].cap);
                    let prompt = TokenCount(prompt_tokens);
                    let tier = own(tier);
                    admit::Event::Submitted(id, Submitted { prompt, max_tokens, tier, blocks })
                }
                Event::Started { id, cached_tokens } => {
                    admit::Event::Started(id, TokenCount(cached_tokens))
                }
                Event::Token { id, first: true, .. } => admit::Event::FirstToken(id),
                Event::Finished { id, reason, usage, timings } => {
                    let how = match reason {
                        FinishReason::Stop | FinishReason::Length => How::Completed,
                        FinishReason::Cancelled
                        | FinishReason::Deadline
                        | FinishReason::Evicted
                        | FinishReason::Shutdown
                        | FinishReason::Failed(_) => How::Failed,
                    };
                    if how == How::Completed {
                        self.fates.get_mut(&id).expect("it asked").done = Some(self.now);
                    }
                    let ended = Ended {
                        how,
                        completion: TokenCount(usage.completion_tokens),
                        ttft: timings.first_token,
                        e2e: timings.finished,
                    };
                    admit::Event::Finished(id, ended)
                }
                Event::Step(step) => admit::Event::Step(Step {
                    took: step.took,
                    decodes: TokenCount(step.shape.decodes),
                    prefill: TokenCount(step.shape.prefill),
                    cells: step.shape.cells,
                    prefill_cells: step.shape.prefill_cells,
                }),
                Event::Token { .. } | Event::Refused { .. } => continue,
            };
            self.record += 1;
            let record = Record { number: self.record, event: told };
            self.controller.record(self.now, ENGINE, record);
        }
        self.settle();
    }

    fn snapshot(&self) -> Snapshot {
        let state = self.scheduler.snapshot(self.now);
        let limits = state.limits;
        Snapshot {
            instance: "e1".into(),
            taken_at: self.now,
            step: state.step,
            record: self.record,
            planner: PLANNER_VERSION.into(),
            limits: EngineLimits {
                slots: limits.slots,
                context: TokenCount(limits.context_tokens),
                batch: TokenCount(limits.batch_tokens),
                prefill: TokenCount(limits.prefill_tokens),
                step: limits.step,
                waiting: limits.waiting,
                kv: limits.kv_blocks,
            },
            rules: Some(limits.rules),
            cost: state.cost.into(),
            kv: KvUsage {
                held: state.kv.held,
                reclaimable: state.kv.reclaimable,
                free: state.kv.free,
            },
            sequences: state.sequences.iter().map(|it| self.sequence(it)).collect(),
            draining: false,
        }
    }

    fn sequence(&self, it: &sched::SequenceView) -> Sequence {
        Sequence {
            id: it.id,
            phase: match it.phase {
                sched::Phase::Waiting => Phase::Waiting,
                sched::Phase::Prefill => Phase::Prefill,
                sched::Phase::Decode => Phase::Decode,
            },
            tier: own(it.tier),
            leased: it.leased,
            prompt: TokenCount(it.prompt_tokens),
            computed: TokenCount(it.computed_tokens),
            generated: TokenCount(it.generated_tokens),
            max_tokens: TokenCount(self.asks[&it.id].cap),
            deadline: it.deadline,
            submitted_at: self.now - it.age,
            blocks: it.blocks,
            rests_until: (it.eligible_in > Span::ZERO).then(|| self.now + it.eligible_in),
        }
    }
}

fn own(tier: sched::Tier) -> Tier {
    match tier {
        sched::Tier::Promised => Tier::Promised,
        sched::Tier::BestEffort => Tier::BestEffort,
    }
}
