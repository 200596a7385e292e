//! A simulated engine, from one event to the next.
//!
//! Most steps of an engine are like the one before: all decode, or all decode beside a piece of the same
//! prompt. Such runs are taken in one jump, up to the step in which something happens: an answer or a
//! prompt ends, somebody may join, a deadline passes. A test holds jumps against single steps.

use sched::{Lateness, Limits, Order, StepCost, StepShape, Tier};
use units::Micros;

use super::{
    plan::{Room, Step, TURN},
    seq::Seq,
    times::StepTimes,
};

/// Events after which a simulation is given up: whoever has not ended by then is not foreseen.
const EVENTS_MAX: u32 = 20_000;

/// What does not change during a simulation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fixed<'a> {
    pub(crate) limits: &'a Limits,
    /// The costs that the engine plans with.
    pub(crate) cost: &'a StepCost,
    /// How long steps really take.
    pub(crate) times: &'a StepTimes,
}

/// Where everybody is.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct State {
    pub(crate) now: Micros,
    /// Number of the last step.
    pub(crate) step: u64,
    /// In planning order.
    pub(crate) running: Vec<Seq>,
    /// Those who may join, in planning order.
    pub(crate) waiting: Vec<Seq>,
    /// Those who may not yet; the next to be let in last.
    pub(crate) later: Vec<Seq>,
    pub(crate) free_slots: u32,
    pub(crate) free_blocks: u32,
}

/// When what happens to one request; the end of time where it was not foreseen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fate {
    pub(crate) first: Micros,
    pub(crate) end: Micros,
}

impl Fate {
    /// Not foreseen.
    pub(crate) const NEVER: Self = Self { first: Micros(u64::MAX), end: Micros(u64::MAX) };
}

/// A simulation under way. Its lists keep their memory from one simulation to the next.
#[derive(Clone, Debug, Default)]
pub(crate) struct Run {
    pub(crate) state: State,
    /// By `who`.
    pub(crate) fates: Vec<Fate>,
    watched: u32,
    /// The soonest deadline that has not passed.
    next_late: Micros,
    plan: Step,
    /// Absent when somebody has joined, left or begun to decode since it was counted.
    counted: Option<Counted>,
    single_steps: bool,
}

/// Those who decode.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Counted {
    decoding: u32,
    /// The fewest tokens that one of them has left.
    least: u32,
}

impl Counted {
    fn of(running: &[Seq]) -> Self {
        let decoding = running.iter().filter(|it| it.is_decoding());
        let none = Self { decoding: 0, least: u32::MAX };
        decoding.fold(none, |sum, it| Self {
            decoding: sum.decoding + 1,
            least: sum.least.min(it.left),
        })
    }
}

impl State {
    /// Puts a request where it belongs.
    pub(crate) fn enqueue(&mut self, sequence: Seq) {
        if sequence.eligible_at > self.now {
            let at = self.later.partition_point(|it| it.eligible_at >= sequence.eligible_at);
            self.later.insert(at, sequence);
        } else {
            insert(&mut self.waiting, sequence);
        }
    }

    fn copy_from(&mut self, other: &Self) {
        self.now = other.now;
        self.step = other.step;
        self.running.clone_from(&other.running);
        self.waiting.clone_from(&other.waiting);
        self.later.clone_from(&other.later);
        self.free_slots = other.free_slots;
        self.free_blocks = other.free_blocks;
    }

    pub(crate) fn everybody(&self) -> impl Iterator<Item = &Seq> {
        self.running.iter().chain(&self.waiting).chain(&self.later)
    }

    pub(crate) fn everybody_mut(&mut self) -> impl Iterator<Item = &mut Seq> {
        self.running.iter_mut().chain(&mut self.waiting).chain(&mut self.later)
    }
}

impl Run {
    /// Begins anew from `state`, with room for the fates of `count` requests.
    pub(crate) fn start(&mut self, state: &State, count: usize) {
        self.state.copy_from(state);
        self.counted = None;
        self.plan.forget();
        self.fates.clear();
        self.fates.resize(count, Fate::NEVER);
    }

    /// Runs until everybody who is watched has ended, or until `horizon`. The step that runs already does
    /// not end before `busy_until`.
    pub(crate) fn finish(&mut self, fixed: Fixed<'_>, busy_until: Micros, horizon: Micros) {
        self.watched = self.state.everybody().map(|it| u32::from(it.watched)).sum();
        self.next_late = Micros(0);
        let mut events = 0;
        while self.watched > 0 && self.state.now <= horizon && events < EVENTS_MAX {
            let single = self.single_steps || events == 0 && self.state.now < busy_until;
            if !self.event(fixed, single) {
                return;
            }
            if events == 0 {
                self.state.now = self.state.now.max(busy_until);
            }
            events += 1;
        }
    }

    /// Runs `steps` single steps in no time.
    pub(crate) fn skip(&mut self, fixed: Fixed<'_>, steps: u64) {
        let now = self.state.now;
        self.next_late = Micros(0);
        for _ in 0..steps {
            self.event(fixed, true);
            self.state.now = now;
        }
    }

    /// One step, or many that are alike. Says whether there was anything to do or to wait for.
    fn event(&mut self, fixed: Fixed<'_>, single: bool) -> bool {
        self.expire(fixed.limits.rules.lateness);
        self.wake();
        self.displace(fixed.cost);
        let counted = self.counted.unwrap_or_else(|| Counted::of(&self.state.running));
        self.counted = Some(counted);
        let state = &self.state;
        let room = Room {
            limits: fixed.limits,
            cost: fixed.cost,
            step: state.step + 1,
            slots: state.free_slots,
            blocks: state.free_blocks,
        };
        let heads = &state.waiting[..room.candidates(&state.waiting)];
        self.plan.plan(&room, &state.running, heads, counted.decoding);
        if self.plan.shape.decodes + self.plan.shape.prefill == 0 {
            return self.sleep();
        }
        let steps = if single { 1 } else { self.repeats(&room, fixed, counted.least) };
        let took = fixed.times.run_us(self.plan.shape, steps);
        self.state.step += u64::from(steps);
        self.state.now = Micros(self.state.now.0.saturating_add(took));
        match self.plan.all_decode && self.plan.pieces.is_empty() && self.plan.joins.is_empty() {
            true => self.decode(steps),
            false => self.advance(steps),
        }
        true
    }

    /// Nothing can run: goes to where somebody may join.
    fn sleep(&mut self) -> bool {
        let Some(next) = self.state.later.last() else { return false };
        self.state.now = self.state.now.max(next.eligible_at);
        true
    }

    /// Lets those join whose time has come.
    fn wake(&mut self) {
        let state = &mut self.state;
        while let Some(next) = state.later.pop_if(|it| it.eligible_at <= state.now) {
            insert(&mut state.waiting, next);
        }
    }

    /// Those who wait past their deadline end, and those who run past it get what the rules say.
    fn expire(&mut self, lateness: Lateness) {
        let now = self.state.now;
        if now < self.next_late {
            return;
        }
        let watched = &mut self.watched;
        let mut drop_late = |it: &Seq| {
            let late = it.key.deadline <= now;
            *watched = watched.saturating_sub(u32::from(late && it.watched));
            !late
        };
        self.state.waiting.retain(&mut drop_late);
        self.state.later.retain(&mut drop_late);
        while let Some(at) =
            self.state.running.iter().position(|it| !it.late && it.key.deadline <= now)
        {
            self.late(at, lateness);
        }
        let soonest = self.state.everybody().filter(|it| !it.late).map(|it| it.key.deadline).min();
        self.next_late = soonest.unwrap_or(Micros(u64::MAX));
    }

    fn late(&mut self, at: usize, lateness: Lateness) {
        self.counted = None;
        let sequence = &mut self.state.running[at];
        sequence.late = true;
        match (lateness, sequence.key.tier) {
            (Lateness::Finish, Tier::BestEffort) => {}
            (Lateness::Finish | Lateness::AbortBestEffort, Tier::Promised) => {
                let mut demoted = self.state.running.remove(at);
                demoted.key.tier = Tier::BestEffort;
                insert(&mut self.state.running, demoted);
            }
            (Lateness::AbortBestEffort, Tier::BestEffort) | (Lateness::AbortAll, _) => {
                let gone = self.state.running.remove(at);
                self.vacate(&gone);
            }
        }
    }

    fn vacate(&mut self, gone: &Seq) {
        self.state.free_slots += 1;
        self.state.free_blocks = self.state.free_blocks.saturating_add(gone.blocks.0);
        self.watched = self.watched.saturating_sub(u32::from(gone.watched));
    }

    /// A promised request at the head of the queue takes what it lacks from best effort, if that is enough.
    fn displace(&mut self, cost: &StepCost) {
        let Some(head) = self.state.waiting.first().filter(|head| head.is_promised()) else {
            return;
        };
        let needed = head.blocks.0;
        let (mut slots, mut blocks) = (self.state.free_slots, self.state.free_blocks);
        let mut going = 0;
        for last in self.state.running.iter().rev() {
            if slots > 0 && blocks >= needed || last.is_promised() {
                break;
            }
            slots += 1;
            blocks = blocks.saturating_add(last.blocks.0);
            going += 1;
        }
        if slots == 0 || blocks < needed {
            return;
        }
        self.counted = None;
        for _ in 0..going {
            let Some(mut last) = self.state.running.pop() else { return };
            self.state.free_slots += 1;
            self.state.free_blocks = self.state.free_blocks.saturating_add(last.blocks.0);
            last.preempt(self.state.now, cost);
            // Late work that runs may finish; late work that waits may not.
            last.late = false;
            self.next_late = self.next_late.min(last.key.deadline);
            self.state.enqueue(last);
        }
    }

    /// How many steps from now on look like the planned one.
    fn repeats(&self, room: &Room<'_>, fixed: Fixed<'_>, least: u32) -> u32 {
        let (plan, state) = (&self.plan, &self.state);
        let cells_matter = fixed.cost.per_cell_us > 0.0
            || fixed.cost.per_tiled_cell_us > 0.0
            || !fixed.times.ignores_cells();
        if !plan.joins.is_empty() || !plan.all_decode || cells_matter && !plan.pieces.is_empty() {
            return 1;
        }
        let mut steps = least;
        for &(at, tokens) in &plan.pieces {
            steps = steps.min(state.running[at].prefill_left / tokens);
        }
        if plan.hungry && is_turned(room.limits) {
            let turn = u32::try_from(room.step % TURN).unwrap_or_default();
            steps = if turn == 0 { 1 } else { steps.min(8 - turn) };
        }
        let last = |steps: u32| {
            let cells = u64::from(plan.shape.decodes) * u64::from(steps - 1);
            StepShape { cells: plan.shape.cells + cells, ..plan.shape }
        };
        if cells_matter && steps > 1 && plan.shape.decodes > 1 && !room.affordable(last(steps)) {
            return 1;
        }
        let next = state.later.last().map_or(Micros(u64::MAX), |it| it.eligible_at);
        let change = next.min(self.next_late).0.saturating_sub(state.now.0);
        // Nothing is due before the end of a step that begins earlier.
        let each = fixed.times.us(last(steps));
        if each.saturating_mul(steps.into()) <= change {
            return steps;
        }
        let until = change.div_ceil(each);
        let until = if cells_matter { change / each } else { until };
        steps.min(u32::try_from(until).unwrap_or(u32::MAX)).max(1)
    }

    /// `steps` steps were made in which everybody decodes who runs and is not in a prompt, and nothing else
    /// happens: the usual case, in one pass.
    fn decode(&mut self, steps: u32) {
        let Self { state, fates, watched, .. } = self;
        let State { running, now, free_slots, free_blocks, .. } = state;
        let mut counted = Counted { decoding: 0, least: u32::MAX };
        running.retain_mut(|it| {
            if !it.is_decoding() {
                return true;
            }
            it.left -= steps;
            it.computed += steps;
            if it.left > 0 {
                counted.decoding += 1;
                counted.least = counted.least.min(it.left);
                return true;
            }
            fates[it.who as usize].end = *now;
            *free_slots += 1;
            *free_blocks = free_blocks.saturating_add(it.blocks.0);
            *watched = watched.saturating_sub(u32::from(it.watched));
            false
        });
        self.counted = Some(counted);
    }

    /// The planned step was made `steps` times.
    fn advance(&mut self, steps: u32) {
        self.counted = None;
        let Self { plan, state, fates, .. } = self;
        let mut ended = false;
        let mut decode = |it: &mut Seq| {
            it.left -= steps;
            it.computed += steps;
            ended |= it.left == 0;
        };
        match plan.all_decode {
            true => state.running.iter_mut().filter(|it| it.is_decoding()).for_each(&mut decode),
            false => plan.decodes.iter().for_each(|at| decode(&mut state.running[*at])),
        }
        let mut prefill = |it: &mut Seq, tokens: u32| {
            it.prefill_left -= tokens;
            it.computed += tokens;
            if it.prefill_left == 0 {
                it.left -= 1;
                ended |= it.left == 0;
                let first = &mut fates[it.who as usize].first;
                *first = state.now.min(*first);
            }
        };
        for &(at, tokens) in &plan.pieces {
            prefill(&mut state.running[at], tokens * steps);
        }
        for tokens in &plan.joins {
            let mut joined = state.waiting.remove(0);
            prefill(&mut joined, *tokens);
            state.free_slots -= 1;
            state.free_blocks -= joined.blocks.0;
            insert(&mut state.running, joined);
        }
        if ended {
            self.remove_ended();
        }
    }

    fn remove_ended(&mut self) {
        let mut at = 0;
        while at < self.state.running.len() {
            let sequence = self.state.running[at];
            if sequence.left > 0 || !sequence.is_decoding() {
                at += 1;
                continue;
            }
            self.state.running.remove(at);
            self.fates[sequence.who as usize].end = self.state.now;
            self.vacate(&sequence);
        }
    }

    /// Takes no jumps from now on.
    #[cfg(test)]
    pub(crate) fn step_singly(&mut self) {
        self.single_steps = true;
    }
}

/// Whether steps differ by their number.
fn is_turned(limits: &Limits) -> bool {
    limits.rules.itl.is_some() && limits.rules.order == Order::DecodeFirst
}

/// Inserts in planning order.
pub(crate) fn insert(sequences: &mut Vec<Seq>, sequence: Seq) {
    let at = sequences.partition_point(|it| it.key < sequence.key);
    sequences.insert(at, sequence);
}
