//! The scheduler: commands in, plans out, outcomes back, events for those who listen.

use std::collections::BTreeMap;

use kv::KvCore;
use units::{Micros, RequestId, Slot};

use crate::{
    Command, Counters, Event, FinishReason, Limits, PlanKey, Reservation, StepCost, StepPlan,
    batch::Batch, moves::Moves, queue::Queue, seq::Sequence,
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
    pub(crate) moves: Moves,
    /// Slots nobody holds, the next one last.
    pub(crate) free_slots: Vec<Slot>,
    pub(crate) queue: Queue,
    pub(crate) batch: Batch,
    pub(crate) running: BTreeMap<PlanKey, Sequence>,
    /// Where each request is.
    pub(crate) keys: BTreeMap<RequestId, PlanKey>,
    pub(crate) unleased: u32,
    pub(crate) arrivals: u64,
    pub(crate) step: u64,
    pub(crate) draining: bool,
    pub(crate) counters: Counters,
    pub(crate) events: Vec<Event>,
}

impl Scheduler {
    /// An idle scheduler over an empty cache of `limits.kv_blocks` blocks. Where a lease has to lie in one
    /// piece, everybody reserves in full.
    #[must_use]
    pub fn new(mut limits: Limits, cost: StepCost, cache: Box<dyn KvCore>) -> Self {
        if !cache.lies_in_pieces() {
            limits.rules.reservation = Reservation::Full;
        }
        Self {
            limits,
            cost,
            cache,
            moves: Moves::new(limits.slots),
            free_slots: (0..limits.slots).rev().map(Slot).collect(),
            queue: Queue::default(),
            batch: Batch::default(),
            running: BTreeMap::new(),
            keys: BTreeMap::new(),
            unleased: 0,
            arrivals: 0,
            step: 0,
            draining: false,
            counters: Counters::default(),
            events: Vec::new(),
        }
    }

    /// Takes a command. Between steps only: never between a plan and its commit.
    pub fn on_command(&mut self, now: Micros, command: Command) {
        match command {
            Command::Submit(submission) => self.submit(now, submission),
            Command::Cancel(id) => self.end(now, id, FinishReason::Cancelled),
            Command::Touch(prompt) => {
                let found = self.cache.lookup(&prompt);
                self.cache.forgo(found);
            }
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

    /// Plans the next step and seats those who join it. Empty when there is nothing to do. Deals with
    /// whose deadline has passed.
    pub fn plan_step(&mut self, now: Micros) -> StepPlan {
        self.expire(now);
        self.queue.wake(now);
        self.batch.begin(now, &self.limits, &self.queue);
        let (solution, candidates) = self.choose(now);
        self.build(now, &solution, candidates)
    }

    /// When [`plan_step`](Self::plan_step) has to be called although no command came.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Micros> {
        let batch = self.batch.begins_at(&self.limits, &self.queue);
        self.queue.next_change().into_iter().chain(batch).min()
    }

    /// Takes what happened since the last call, in order.
    pub fn drain_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Takes what changed in the index of kept blocks since the last call, in order.
    pub fn drain_index(&mut self) -> Vec<kv::IndexChange> {
        self.cache.drain_index()
    }

    /// The bounds and rules that it plans by.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The KV core, to read.
    #[must_use]
    pub fn cache(&self) -> &dyn KvCore {
        &*self.cache
    }

    pub(crate) fn running_mut(&mut self, id: RequestId) -> Option<&mut Sequence> {
        let key = self.keys.get(&id)?;
        self.running.get_mut(key)
    }
}
