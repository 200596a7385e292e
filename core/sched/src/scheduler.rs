//! The scheduler: commands in, plans out, outcomes back, events for those who listen.

use std::collections::BTreeMap;

use kv::{Kind, KvCore, Layout, Options};
use units::{Micros, RequestId, Slot};

use crate::{
    Command, Decode, EngineError, Event, FinishReason, Join, Limits, PlanKey, Prefill, Refusal,
    Running, StepCost, StepOutcome, StepPlan, StepProblem, StepRecord, StepSolution, Submission,
    Waiting,
    seq::{Seat, Sequence},
};

/// Iteration-level scheduling over one engine.
///
/// Call [`on_command`](Self::on_command) for everything that arrives, then
/// [`plan_step`](Self::plan_step); run the plan; hand the outcome to
/// [`commit_step`](Self::commit_step); tell the world what [`drain_events`](Self::drain_events) gives.
/// With nothing to plan, sleep until [`next_deadline`](Self::next_deadline) or the next command.
#[derive(Debug)]
pub struct Scheduler {
    pub(crate) limits: Limits,
    pub(crate) cost: StepCost,
    pub(crate) cache: Box<dyn KvCore>,
    /// Slots nobody holds, the next one last.
    pub(crate) free_slots: Vec<Slot>,
    pub(crate) waiting: BTreeMap<PlanKey, Sequence>,
    pub(crate) running: BTreeMap<PlanKey, Sequence>,
    /// Where each request is.
    pub(crate) keys: BTreeMap<RequestId, PlanKey>,
    unleased: u32,
    arrivals: u64,
    pub(crate) step: u64,
    pub(crate) draining: bool,
    events: Vec<Event>,
}

impl Scheduler {
    /// An idle scheduler.
    #[must_use]
    pub fn new(limits: Limits, cost: StepCost) -> Self {
        Self {
            limits,
            cost,
            cache: Kind::Paged.build(Options {
                blocks: limits.kv_blocks,
                layout: Layout::Unified,
                owners: 0,
                prefixes: false,
            }),
            free_slots: (0..limits.slots).rev().map(Slot).collect(),
            waiting: BTreeMap::new(),
            running: BTreeMap::new(),
            keys: BTreeMap::new(),
            unleased: 0,
            arrivals: 0,
            step: 0,
            draining: false,
            events: Vec::new(),
        }
    }

    /// Takes a command. Between steps only: never between a plan and its commit.
    pub fn on_command(&mut self, now: Micros, command: Command) {
        match command {
            Command::Submit(submission) => self.submit(now, submission),
            Command::Cancel(id) => self.end(now, id, FinishReason::Cancelled),
            Command::Drain => self.draining = true,
            Command::Stop => {
                self.draining = true;
                let ids: Vec<RequestId> = self.keys.keys().copied().collect();
                for id in ids {
                    self.end(now, id, FinishReason::Shutdown);
                }
            }
        }
    }

    /// Plans the next step and seats those who join it. Empty when there is nothing to do. Ends the
    /// waiting whose deadline has passed.
    pub fn plan_step(&mut self, now: Micros) -> StepPlan {
        self.expire(now);
        let problem = self.problem();
        let solution = problem.solve(&self.limits, &self.cost);
        if solution.shape.decodes + solution.shape.prefill == 0 {
            return StepPlan::default();
        }
        self.step += 1;
        let mut plan = StepPlan {
            number: self.step,
            predicted: self.cost.predict(solution.shape),
            shape: solution.shape,
            ..StepPlan::default()
        };
        self.plan_running(&solution, &mut plan);
        for tokens in solution.joins {
            self.join(now, tokens, &mut plan);
        }
        plan
    }

    /// Takes the outcome of the plan that [`plan_step`](Self::plan_step) gave last. After an error
    /// every sequence of the plan has failed; the others go on.
    pub fn commit_step(
        &mut self,
        now: Micros,
        plan: StepPlan,
        outcome: Result<StepOutcome, EngineError>,
    ) {
        let mut outcome = match outcome {
            Ok(outcome) => outcome,
            Err(error) => return self.fail(now, &plan, &error),
        };
        self.cost.observe(plan.shape, outcome.took);
        for decode in &plan.decodes {
            self.advance(decode.id, 1);
        }
        for piece in &plan.prefills {
            let tokens = u32::try_from(piece.range.len()).expect("a piece fits a batch");
            self.advance(piece.id, tokens);
        }
        // First tokens are told first: nobody waits longer than those who have seen nothing yet, and what
        // is told last waits for the delivery of all before it.
        let decoded = plan.decodes.len().min(outcome.sampled.len());
        outcome.sampled.rotate_left(decoded);
        for sampled in &outcome.sampled {
            self.sampled(now, sampled);
        }
        self.events.push(Event::Step(StepRecord {
            step: plan.number,
            shape: plan.shape,
            took: outcome.took,
            predicted: plan.predicted,
            running: count(self.running.len()),
            waiting: count(self.waiting.len()),
        }));
    }

    /// When [`plan_step`](Self::plan_step) has to be called although no command came.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Micros> {
        self.waiting.values().filter_map(|sequence| sequence.deadline).min()
    }

    /// Takes what happened since the last call, in order.
    pub fn drain_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    fn submit(&mut self, now: Micros, submission: Submission) {
        let id = submission.id;
        if let Some(refusal) = self.refusal(&submission) {
            self.events.push(Event::Refused { id, refusal });
            return;
        }
        let evict = submission.evict.clone();
        self.arrivals += 1;
        let sequence = Sequence::new(self.arrivals, submission);
        self.unleased += u32::from(sequence.epoch.is_none());
        self.events.push(Event::Accepted {
            id,
            tier: sequence.tier,
            epoch: sequence.epoch,
            prompt_tokens: sequence.usage().prompt_tokens,
            max_tokens: sequence.max_tokens,
            budget: sequence.deadline.map(|deadline| deadline.until(now)),
            first_token: sequence.first_token_budget,
            blocks: sequence.blocks(),
        });
        self.keys.insert(id, sequence.key());
        self.waiting.insert(sequence.key(), sequence);
        for victim in evict {
            self.evict(victim);
        }
    }

    fn refusal(&self, submission: &Submission) -> Option<Refusal> {
        let limits = &self.limits;
        // Best effort cannot fill the queue against promises.
        let rivals = self.waiting.keys().filter(|key| key.tier <= submission.tier);
        let waiting = count(rivals.count());
        let needed =
            units::TokenCount(count(submission.prompt.len()).saturating_add(submission.max_tokens))
                .blocks();
        if self.draining {
            Some(Refusal::Draining)
        } else if self.keys.contains_key(&submission.id) {
            Some(Refusal::Duplicate)
        } else if needed > limits.kv_blocks {
            Some(Refusal::TooLarge { needed: needed.0, total: limits.kv_blocks.0 })
        } else if waiting >= limits.waiting {
            Some(Refusal::QueueFull { waiting, limit: limits.waiting })
        } else if submission.epoch.is_none() && self.unleased >= limits.unleased {
            Some(Refusal::UnleasedFull { unleased: self.unleased, limit: limits.unleased })
        } else {
            None
        }
    }

    /// Sends a running best-effort request back to the queue. Promises are never evicted, and an id
    /// that has just finished is nobody's fault.
    fn evict(&mut self, id: RequestId) {
        let Some(key) = self.keys.get(&id) else { return };
        let evictable = |sequence: &Sequence| sequence.tier == crate::Tier::BestEffort;
        if !self.running.get(key).is_some_and(evictable) {
            return;
        }
        let mut sequence = self.running.remove(key).expect("it was just found");
        let seat = sequence.evict();
        self.keys.insert(id, sequence.key());
        self.waiting.insert(sequence.key(), sequence);
        self.vacate(seat);
    }

    fn expire(&mut self, now: Micros) {
        let late = |sequence: &&Sequence| sequence.deadline.is_some_and(|deadline| deadline <= now);
        let ended: Vec<(RequestId, FinishReason)> =
            self.waiting.values().filter(late).map(|it| (it.id, it.lateness())).collect();
        for (id, reason) in ended {
            self.end(now, id, reason);
        }
    }

    fn problem(&self) -> StepProblem {
        let running = self.running.values();
        let waiting = self.waiting.values().take(self.free_slots.len());
        StepProblem {
            running: running
                .map(|it| Running {
                    key: it.key(),
                    prefill_left: it.prefill_left(),
                    computed: it.computed,
                })
                .collect(),
            waiting: waiting
                .map(|it| Waiting {
                    key: it.key(),
                    prefill: it.prefill_left(),
                    blocks: it.blocks(),
                })
                .collect(),
            free_slots: count(self.free_slots.len()),
            free_blocks: self.cache.usage().free,
        }
    }

    fn plan_running(&self, solution: &StepSolution, plan: &mut StepPlan) {
        let running: Vec<&Sequence> = self.running.values().collect();
        plan.decodes.extend(solution.decodes.iter().map(|&at| decode(running[at])));
        let prefills = solution.prefills.iter();
        plan.prefills.extend(prefills.map(|&(at, tokens)| prefill(running[at], tokens)));
    }

    /// Seats the head of the queue, with the first `tokens` of its prompt.
    fn join(&mut self, now: Micros, tokens: u32, plan: &mut StepPlan) {
        let (key, mut sequence) = self.waiting.pop_first().expect("the planner saw it waiting");
        let slot = self.free_slots.pop().expect("the planner counted the slots");
        let found = self.cache.lookup(&sequence.history);
        let lease = self.cache.reserve(found, sequence.blocks());
        let lease = lease.expect("the planner counted the blocks");
        sequence.start(now, Seat { slot, lease });
        self.events.push(Event::Started { id: sequence.id });
        plan.joins.push(Join {
            slot,
            id: sequence.id,
            sampling: sequence.sampling.clone(),
            history: sequence.history.clone(),
            sampled: sequence.sampled,
            top_logprobs: sequence.top_logprobs,
            reuse: None,
        });
        plan.prefills.push(prefill(&sequence, tokens));
        self.running.insert(key, sequence);
    }

    fn running_mut(&mut self, id: RequestId) -> Option<&mut Sequence> {
        let key = self.keys.get(&id)?;
        self.running.get_mut(key)
    }

    fn advance(&mut self, id: RequestId, tokens: u32) {
        if let Some(sequence) = self.running_mut(id) {
            sequence.computed += tokens;
        }
    }

    fn sampled(&mut self, now: Micros, sampled: &crate::Sampled) {
        let id = sampled.id;
        let Some(sequence) = self.running_mut(id) else { return };
        let first = sequence.take(now, sampled.token);
        let full = sequence.sampled >= sequence.max_tokens;
        self.events.push(Event::Token { id, token: sampled.token, first });
        if sampled.stop {
            self.end(now, id, FinishReason::Stop);
        } else if full {
            self.end(now, id, FinishReason::Length);
        }
    }

    fn fail(&mut self, now: Micros, plan: &StepPlan, error: &EngineError) {
        let decodes = plan.decodes.iter().map(|decode| decode.id);
        let prefills = plan.prefills.iter().map(|piece| piece.id);
        for id in decodes.chain(prefills) {
            self.end(now, id, FinishReason::Failed(error.to_string()));
        }
    }

    /// Ends a request wherever it is and frees all that it holds.
    fn end(&mut self, now: Micros, id: RequestId, reason: FinishReason) {
        let Some(key) = self.keys.remove(&id) else { return };
        let place =
            if self.running.contains_key(&key) { &mut self.running } else { &mut self.waiting };
        let mut sequence = place.remove(&key).expect("the index knows where it is");
        self.unleased -= u32::from(sequence.epoch.is_none());
        self.vacate(sequence.seat.take());
        let (usage, timings) = (sequence.usage(), sequence.timings(now));
        self.events.push(Event::Finished { id, reason, usage, timings });
    }

    fn vacate(&mut self, seat: Option<Seat>) {
        if let Some(Seat { slot, lease }) = seat {
            self.free_slots.push(slot);
            self.cache.release(lease);
        }
    }
}

fn decode(sequence: &Sequence) -> Decode {
    let seat = sequence.seat.as_ref().expect("a running sequence has a seat");
    Decode { slot: seat.slot, id: sequence.id, token: sequence.last(), position: sequence.computed }
}

fn prefill(sequence: &Sequence, tokens: u32) -> Prefill {
    let seat = sequence.seat.as_ref().expect("a running sequence has a seat");
    let start = sequence.computed as usize;
    Prefill {
        slot: seat.slot,
        id: sequence.id,
        prompt: sequence.history.clone(),
        range: start..start + tokens as usize,
        last: tokens == sequence.prefill_left(),
    }
}

pub(crate) fn count(len: usize) -> u32 {
    u32::try_from(len).expect("every collection here is bounded by the limits")
}
