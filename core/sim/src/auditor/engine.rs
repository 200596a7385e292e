//! What an engine owes: slots, blocks, ends, deadlines, order.

use std::collections::{BTreeMap, BTreeSet};

use admit::Policy;
use sched::{
    Discipline, Event, FinishReason, Lateness, Limits, Move, Scheduler, StepPlan, Submission, Tier,
};
use units::{BlockCount, Micros, RequestId, Slot, Span};

use super::{Findings, is_calm, is_shared};
use crate::{EngineSpec, Rule, Scenario};

/// Nobody waits so long while nothing goes on.
const STUCK_AFTER: Span = Span::from_secs(60);
/// Every so many steps it is looked for those who run and get no rows.
const STARVED_EVERY: u64 = 64;

#[derive(Debug)]
pub(super) struct EngineBooks {
    limits: Limits,
    /// Blocks may be in several sequences'.
    is_shared: bool,
    /// How many may be in the system, where that is sure.
    most: Option<u64>,
    /// Submitted, and not accepted or refused yet: their deadlines.
    coming: BTreeMap<RequestId, Option<Micros>>,
    lives: BTreeMap<RequestId, Life>,
    /// Who holds which slot.
    seats: BTreeMap<Slot, RequestId>,
    /// Who waits, by deadline.
    deadlines: BTreeSet<(Micros, RequestId)>,
    arrivals: u64,
    /// Those who are there with admission's word.
    leased: u64,
    step: u64,
    progress_at: Micros,
    is_stuck: bool,
}

/// A request that was accepted.
#[derive(Debug)]
struct Life {
    arrival: u64,
    tier: Tier,
    is_leased: bool,
    deadline: Option<Micros>,
    blocks: BlockCount,
    max_tokens: u32,
    tokens: u32,
    runs: bool,
    starts: u32,
    served_at: Micros,
}

impl Life {
    fn new(now: Micros, tier: Tier, is_leased: bool, max_tokens: u32, blocks: BlockCount) -> Self {
        Self {
            arrival: 0,
            tier,
            is_leased,
            deadline: None,
            blocks,
            max_tokens,
            tokens: 0,
            runs: false,
            starts: 0,
            served_at: now,
        }
    }
}

impl EngineBooks {
    pub(super) fn new(spec: &EngineSpec, scenario: &Scenario) -> Self {
        let limits = spec.limits;
        let most = match scenario.admission.policy {
            Policy::Limit(bounds) => Some(match bounds.requests {
                0 => 2 * u64::from(limits.slots),
                set => set,
            }),
            Policy::Off | Policy::Abort | Policy::Adaptive | Policy::Twin(_) => None,
        };
        let most = most.filter(|_| is_calm(scenario));
        Self {
            limits,
            is_shared: is_shared(spec),
            most,
            coming: BTreeMap::new(),
            lives: BTreeMap::new(),
            seats: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            arrivals: 0,
            leased: 0,
            step: 0,
            progress_at: Micros(0),
            is_stuck: false,
        }
    }

    /// A fresh process: it knows nothing of what the last one had.
    pub(super) fn begins(&mut self, now: Micros) {
        self.coming.clear();
        self.lives.clear();
        self.seats.clear();
        self.deadlines.clear();
        self.leased = 0;
        self.step = 0;
        self.progress_at = now;
        self.is_stuck = false;
    }

    /// Nobody knows any more how many may be there.
    pub(super) fn waive_limit(&mut self) {
        self.most = None;
    }

    pub(super) fn freezes(&mut self, until: Micros) {
        self.progress_at = self.progress_at.max(until);
    }

    pub(super) fn submitted(&mut self, submission: &Submission) {
        self.coming.insert(submission.id, submission.deadline);
    }

    pub(super) fn said(
        &mut self,
        now: Micros,
        clock: Micros,
        event: &Event,
        findings: &mut Findings,
    ) {
        match event {
            Event::Accepted { id, tier, epoch, max_tokens, blocks, .. } => {
                let is_leased = epoch.is_some();
                let life = Life::new(now, *tier, is_leased, *max_tokens, *blocks);
                self.accepted(now, *id, life, findings);
            }
            Event::Refused { id, .. } => {
                if self.coming.remove(id).is_none() {
                    findings.find(now, Some(*id), Rule::OneEnd, "refused unasked".into());
                }
            }
            Event::Started { id, .. } => self.started(now, clock, *id, findings),
            Event::Token { id, .. } => self.token(now, *id, findings),
            Event::Finished { id, reason, .. } => self.finished(now, clock, *id, reason, findings),
            Event::Step(step) => {
                self.progress_at = now;
                if step.step != self.step {
                    let what = format!("step {} ends, {} is under way", step.step, self.step);
                    findings.find(now, None, Rule::Order, what);
                }
            }
        }
    }

    fn accepted(&mut self, now: Micros, id: RequestId, life: Life, findings: &mut Findings) {
        let Some(deadline) = self.coming.remove(&id) else {
            return findings.find(now, Some(id), Rule::OneEnd, "accepted unasked".into());
        };
        self.arrivals += 1;
        self.leased += u64::from(life.is_leased);
        self.deadlines.extend(deadline.map(|at| (at, id)));
        let life = Life { arrival: self.arrivals, deadline, ..life };
        if self.lives.insert(id, life).is_some() {
            findings.find(now, Some(id), Rule::OneEnd, "accepted twice".into());
        }
        self.check_bounds(now, id, findings);
    }

    fn check_bounds(&self, now: Micros, id: RequestId, findings: &mut Findings) {
        let open = self.lives.len() as u64;
        // Best effort cannot fill the queue against promises, so each tier may fill it; and who is preempted
        // goes back to it.
        let room = u64::from(self.limits.slots) * 2 + u64::from(self.limits.waiting) * 2;
        if open > room {
            let what = format!("{open} are in the engine, {room} have room");
            findings.find(now, Some(id), Rule::Bounds, what);
        }
        let leased = self.leased;
        if let Some(most) = self.most.filter(|most| leased > *most) {
            let what = format!("{leased} were let in and are there, the limit is {most}");
            findings.find(now, Some(id), Rule::Limits, what);
        }
    }

    fn started(&mut self, now: Micros, clock: Micros, id: RequestId, findings: &mut Findings) {
        let fifo = self.limits.rules.discipline == Discipline::Fifo;
        let arrival = self.lives.get(&id).map(|life| life.arrival);
        if fifo && self.lives.values().any(|life| !life.runs && Some(life.arrival) < arrival) {
            findings.find(now, Some(id), Rule::Order, "it overtook an earlier one".into());
        }
        let Some(life) = self.lives.get_mut(&id) else {
            return findings.find(now, Some(id), Rule::OneEnd, "started, and not there".into());
        };
        life.starts += 1;
        life.runs = true;
        life.served_at = now;
        let late = life.deadline.is_some_and(|deadline| deadline <= clock);
        if life.starts > 1 && life.tier == Tier::Promised && !late {
            let what = format!("promised, and started {} times", life.starts);
            findings.find(now, Some(id), Rule::Promises, what);
        }
        if let Some(deadline) = life.deadline {
            self.deadlines.remove(&(deadline, id));
        }
        self.progress_at = now;
    }

    fn token(&mut self, now: Micros, id: RequestId, findings: &mut Findings) {
        let Some(life) = self.lives.get_mut(&id) else {
            return findings.find(now, Some(id), Rule::OneEnd, "a token after the end".into());
        };
        life.tokens += 1;
        if life.tokens > life.max_tokens {
            let what = format!("token {} of {}", life.tokens, life.max_tokens);
            findings.find(now, Some(id), Rule::Bounds, what);
        }
    }

    fn finished(
        &mut self,
        now: Micros,
        clock: Micros,
        id: RequestId,
        reason: &FinishReason,
        findings: &mut Findings,
    ) {
        self.progress_at = now;
        let Some(life) = self.lives.remove(&id) else {
            return findings.find(now, Some(id), Rule::OneEnd, "it had ended before".into());
        };
        if let Some(deadline) = life.deadline {
            self.deadlines.remove(&(deadline, id));
        }
        self.leased -= u64::from(life.is_leased);
        let early = life.deadline.is_none_or(|deadline| clock < deadline);
        match reason {
            FinishReason::Deadline | FinishReason::Evicted if early => {
                let what = format!("it ended for its deadline, which is later: {reason:?}");
                findings.find(now, Some(id), Rule::Deadlines, what);
            }
            FinishReason::Length if life.tokens < life.max_tokens => {
                let what = format!("it ended at {} of {} tokens", life.tokens, life.max_tokens);
                findings.find(now, Some(id), Rule::OneEnd, what);
            }
            FinishReason::Stop
            | FinishReason::Length
            | FinishReason::Cancelled
            | FinishReason::Deadline
            | FinishReason::Evicted
            | FinishReason::Shutdown
            | FinishReason::Failed(_) => {}
        }
    }

    /// `clock` is the engine's, by which deadlines are.
    pub(super) fn planned(
        &mut self,
        now: Micros,
        clock: Micros,
        plan: &StepPlan,
        findings: &mut Findings,
    ) {
        self.check_deadlines(now, clock, findings);
        self.check_progress(now, plan, findings);
        if plan.is_empty() {
            return;
        }
        if plan.number != self.step + 1 {
            let what = format!("step {} comes after {}", plan.number, self.step);
            findings.find(now, None, Rule::Order, what);
        }
        self.step = plan.number;
        self.seat(now, clock, plan, findings);
        self.serve(now, plan, findings);
    }

    fn check_deadlines(&mut self, now: Micros, clock: Micros, findings: &mut Findings) {
        while let Some(&(deadline, id)) = self.deadlines.first()
            && deadline <= clock
        {
            self.deadlines.pop_first();
            let late = clock.since(deadline);
            let what = format!("it waits, and its deadline passed {late} ago");
            findings.find(now, Some(id), Rule::Deadlines, what);
        }
        if self.limits.rules.lateness != Lateness::AbortAll {
            return;
        }
        for id in self.seats.values() {
            let Some(life) = self.lives.get(id) else { continue };
            if life.deadline.is_some_and(|deadline| deadline <= clock) {
                let what = "it runs past its deadline, and late work is aborted".into();
                findings.find(now, Some(*id), Rule::Deadlines, what);
            }
        }
    }

    fn check_progress(&mut self, now: Micros, plan: &StepPlan, findings: &mut Findings) {
        let idle = now.since(self.progress_at);
        if !self.lives.is_empty() && idle > STUCK_AFTER && !self.is_stuck {
            self.is_stuck = true;
            let what = format!("{} wait, and nothing has happened for {idle}", self.lives.len());
            findings.find(now, None, Rule::Stuck, what);
        }
        if !plan.number.is_multiple_of(STARVED_EVERY) {
            return;
        }
        for id in self.seats.values() {
            let Some(life) = self.lives.get_mut(id).filter(|life| life.runs) else { continue };
            let starved = now.since(life.served_at);
            if starved > STUCK_AFTER {
                life.served_at = now;
                let what = format!("it runs, and had no row for {starved}");
                findings.find(now, Some(*id), Rule::Stuck, what);
            }
        }
    }

    /// Slots are left and taken.
    fn seat(&mut self, now: Micros, clock: Micros, plan: &StepPlan, findings: &mut Findings) {
        for made in &plan.moves {
            let Move::Leave { slot } = made else { continue };
            let Some(id) = self.seats.remove(slot) else { continue };
            self.left(now, clock, id, findings);
        }
        for join in &plan.joins {
            if let Some(other) = self.seats.insert(join.slot, join.id) {
                let what = format!("slot {} was {other}'s", join.slot.0);
                findings.find(now, Some(join.id), Rule::Slots, what);
            }
            match self.lives.get_mut(&join.id) {
                Some(life) => life.runs = true,
                None => {
                    findings.find(now, Some(join.id), Rule::Slots, "joins, and has ended".into());
                }
            }
            let deadline = self.lives.get(&join.id).and_then(|life| life.deadline);
            self.deadlines.remove(&(deadline.unwrap_or_default(), join.id));
        }
        if self.seats.len() > self.limits.slots as usize {
            let what = format!("{} run in {} slots", self.seats.len(), self.limits.slots);
            findings.find(now, None, Rule::Slots, what);
        }
    }

    /// A slot was left: its sequence has ended, or it was preempted.
    fn left(&mut self, now: Micros, clock: Micros, id: RequestId, findings: &mut Findings) {
        let Some(life) = self.lives.get_mut(&id) else { return };
        life.runs = false;
        let late = life.deadline.is_some_and(|deadline| deadline <= clock);
        if life.tier == Tier::Promised && !late {
            findings.find(now, Some(id), Rule::Promises, "promised, and preempted".into());
        }
        if !late {
            self.deadlines.extend(life.deadline.map(|at| (at, id)));
        }
    }

    /// Rows are of those who have the slots.
    fn serve(&mut self, now: Micros, plan: &StepPlan, findings: &mut Findings) {
        let decodes = plan.decodes.iter().map(|it| (it.slot, it.id));
        let prefills = plan.prefills.iter().map(|it| (it.slot, it.id));
        for (slot, id) in decodes.chain(prefills) {
            if self.seats.get(&slot) != Some(&id) {
                let what = format!("a row in slot {}, which is not its own", slot.0);
                findings.find(now, Some(id), Rule::Slots, what);
            }
            if let Some(life) = self.lives.get_mut(&id) {
                life.served_at = now;
            }
        }
        let rows = plan.rows();
        if rows > self.limits.batch_tokens as usize {
            let what = format!("{rows} rows in a batch of {}", self.limits.batch_tokens);
            findings.find(now, None, Rule::Bounds, what);
        }
    }

    /// Blocks are held by those who run.
    pub(super) fn published(
        &mut self,
        now: Micros,
        scheduler: &Scheduler,
        findings: &mut Findings,
    ) {
        let usage = scheduler.cache().usage();
        let running = self.lives.values().filter(|life| life.runs);
        let most: u64 = running.map(|life| u64::from(life.blocks.0)).sum();
        let held = u64::from(usage.held.0);
        // Who computed a prompt that another had published meanwhile pins that one's blocks beside its own; and a
        // block that will be copied is pinned too.
        let pinned = if self.is_shared { most + self.seats.len() as u64 } else { 0 };
        if held > most + pinned {
            let what = format!("{held} blocks are held, those who run may hold {most}");
            findings.find(now, None, Rule::Blocks, what);
        }
        let sum = usage.held + usage.reclaimable + usage.free;
        if sum != usage.total {
            let what = format!("{} blocks of {}", sum.0, usage.total.0);
            findings.find(now, None, Rule::Blocks, what);
        }
    }

    pub(super) fn rests(&mut self, now: Micros, scheduler: &Scheduler, findings: &mut Findings) {
        for (id, life) in &self.lives {
            let what = format!("it is in the engine at the end, {} tokens long", life.tokens);
            findings.find(now, Some(*id), Rule::OneEnd, what);
        }
        let held = scheduler.cache().usage().held.0;
        if held > 0 {
            findings.find(now, None, Rule::Blocks, format!("{held} blocks are held at the end"));
        }
    }
}
