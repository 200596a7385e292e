//! One candidate in one engine's outlook.

use units::{Micros, RequestId};

use super::{
    doubt::Doubt,
    scenarios::{Scenarios, horizon, is_in_time, share},
};
use crate::{
    Tier,
    forecast::{Fate, Outlook, Run, Seq, State, Who},
    lengths::Law,
};

/// A promise that is this unlikely to be kept is lost already, and protected no more.
const LOST: f64 = 0.1;
/// What promises may lose together, as a share of the candidate's own probability.
const LOSS_MAX: f64 = 0.1;
/// The same for a candidate without a promise.
const LOSS_MAX_BEST_EFFORT: f64 = 0.02;

/// Scenarios that say how likely a candidate is to be in time when it is not safe.
pub(crate) const PEEK: u32 = 16;

/// What was counted over scenarios.
#[derive(Debug, Default)]
struct Tally {
    seen: u32,
    /// In how many the candidate was too late.
    misses: u32,
    /// In how many each promise was kept.
    after: Vec<u32>,
    ends: Vec<Micros>,
    first: Micros,
}

/// A candidate, put into an outlook.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case<'a> {
    pub(crate) outlook: &'a Outlook,
    pub(crate) now: Micros,
    pub(crate) candidate: Seq,
    pub(crate) who: Who,
    /// Whether promises already made are looked at.
    pub(crate) impact: bool,
}

/// What a simulation says of a candidate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Finding {
    /// The probability to be in time.
    pub(crate) likely: f64,
    /// By when it is done, with the confidence that was asked for.
    pub(crate) bound: Micros,
    /// By when its first token is there.
    pub(crate) first: Micros,
    /// It is in time as surely as was asked for.
    pub(crate) is_safe: bool,
    /// No promise already made suffers by it.
    pub(crate) harms_nobody: bool,
}

impl Finding {
    pub(crate) fn is_good(&self) -> bool {
        self.is_safe && self.harms_nobody
    }
}

impl Case<'_> {
    /// The outlook with the candidate.
    fn with(&self, run: &mut Run, state: &State) {
        run.start(state, self.outlook.who.len() + 1);
        run.state.enqueue(self.candidate);
    }

    fn promised(&self) -> impl Iterator<Item = (usize, &Who)> {
        let who = self.outlook.who.iter().enumerate();
        who.filter(|(_, who)| self.impact && who.tier == Tier::Promised)
    }

    /// On caps, with a margin. `alone` is what happens when nobody comes.
    pub(crate) fn on_caps(
        &self,
        doubt: Doubt,
        alone: &[Fate],
        state: &State,
        run: &mut Run,
    ) -> Finding {
        self.with(run, state);
        // Who is later than this is no promise, and how much later does not matter.
        let end = horizon(self.outlook, Some(self.candidate.key.deadline));
        run.finish(self.outlook.fixed(), self.outlook.busy_until, end);
        let own = run.fates[self.candidate.who as usize];
        let Who { deadline, first_by, .. } = self.who;
        let is_safe = is_in_time(doubt, self.now, own, deadline, first_by);
        let harms_nobody =
            self.promised().all(|(at, who)| self.is_unharmed(doubt, who, alone[at], run.fates[at]));
        Finding {
            likely: if is_safe { 1.0 } else { 0.0 },
            bound: doubt.apply(self.now, own.end),
            first: doubt.apply(self.now, own.first),
            is_safe,
            harms_nobody,
        }
    }

    /// Whether a promise is as safe as before, or stays safe. One that is no longer safe but still looks in
    /// time loses nothing more; one that looks too late anyway has nothing to lose.
    fn is_unharmed(&self, doubt: Doubt, who: &Who, before: Fate, after: Fate) -> bool {
        let safe = |fate| is_in_time(doubt, self.now, fate, who.deadline, who.first_by);
        let later =
            after.end > before.end || who.first_by < Micros(u64::MAX) && after.first > before.first;
        let likely = is_in_time(Doubt::of(0.0), self.now, before, who.deadline, who.first_by);
        !later || safe(after) || !likely
    }

    /// Over scenarios, as many as it takes: who cannot be safe is given up, after a few that say how likely
    /// it still is to be in time.
    pub(crate) fn over(
        &self,
        scenarios: &Scenarios,
        law: &Law,
        level: f64,
        state: &State,
        run: &mut Run,
    ) -> Finding {
        let count = scenarios.count();
        let misses_max = misses_max(count, level);
        let mut tally = Tally { after: vec![0; self.outlook.who.len()], ..Tally::default() };
        let end = horizon(self.outlook, Some(self.candidate.key.deadline));
        for at in 0..count {
            self.with(run, state);
            scenarios.set(at, run, self.outlook.who.len());
            self.set_own(law, at, count, run);
            run.finish(self.outlook.fixed(), self.outlook.busy_until, end);
            self.count(scenarios.doubts[at as usize], run, &mut tally);
            if tally.misses > misses_max && tally.seen >= PEEK {
                break;
            }
        }
        let is_safe = tally.misses <= misses_max;
        let harms_nobody = self.is_harmless(scenarios, &tally, level, is_safe, run);
        let Tally { seen, misses, mut ends, first, .. } = tally;
        ends.sort_unstable();
        let bound = ends[ends.len() - 1 - (misses_max as usize).min(ends.len() - 1)];
        let likely = f64::from(seen - misses) / f64::from(seen);
        Finding { likely, bound, first, is_safe, harms_nobody }
    }

    fn count(&self, doubt: Doubt, run: &Run, tally: &mut Tally) {
        let own = run.fates[self.candidate.who as usize];
        let Who { deadline, first_by, .. } = self.who;
        tally.seen += 1;
        tally.misses += u32::from(!is_in_time(doubt, self.now, own, deadline, first_by));
        tally.ends.push(doubt.apply(self.now, own.end));
        tally.first = tally.first.max(doubt.apply(self.now, own.first));
        for (index, who) in self.promised() {
            let fate = run.fates[index];
            let in_time = is_in_time(doubt, self.now, fate, who.deadline, who.first_by);
            tally.after[index] += u32::from(in_time);
        }
    }

    fn set_own(&self, law: &Law, at: u32, count: u32, run: &mut Run) {
        let who = self.candidate.who;
        let left = law.left(0, share(self.who.id, at, count), self.candidate.left);
        let own = run.state.everybody_mut().find(|it| it.who == who);
        if let Some(own) = own {
            own.left = left;
        }
    }

    /// Whether no promise falls below the level, or lower below it, and all together lose little. A promise
    /// that no longer reaches the level stays protected for as long as it may still be kept.
    fn is_harmless(
        &self,
        scenarios: &Scenarios,
        tally: &Tally,
        level: f64,
        is_safe: bool,
        run: &mut Run,
    ) -> bool {
        let share = |counted: u32| f64::from(counted) / f64::from(tally.seen);
        let floor = tally.seen - misses_max(tally.seen, level);
        let mut loss = 0.0;
        for (at, _) in self.promised() {
            if tally.after[at] == tally.seen {
                continue; // Kept in all of them: it has lost nothing.
            }
            let before = scenarios.in_time(self.outlook, self.now, run, at, tally.seen);
            let after = tally.after[at];
            if after < before && after < floor && share(before) > LOST {
                return false;
            }
            loss += share(before.saturating_sub(after));
        }
        let likely = share(tally.seen - tally.misses);
        loss <= if is_safe { LOSS_MAX * likely } else { LOSS_MAX_BEST_EFFORT }
    }

    /// The largest best-effort sequences that run, at most so many.
    pub(crate) fn victims(&self, most: usize) -> Vec<RequestId> {
        let mut victims: Vec<&Seq> =
            self.outlook.state.running.iter().filter(|it| !it.is_promised()).collect();
        victims.sort_unstable_by_key(|it| std::cmp::Reverse((it.left + it.prefill_left, it.who)));
        victims.truncate(most);
        victims.iter().map(|it| self.outlook.who[it.who as usize].id).collect()
    }

    /// The outlook's state once these have gone back to the queue.
    pub(crate) fn without(&self, victims: &[RequestId]) -> State {
        let mut state = self.outlook.state.clone();
        let mut at = 0;
        while at < state.running.len() {
            let sequence = state.running[at];
            if !victims.contains(&self.outlook.who[sequence.who as usize].id) {
                at += 1;
                continue;
            }
            let mut gone = state.running.remove(at);
            state.free_slots += 1;
            state.free_blocks = state.free_blocks.saturating_add(gone.blocks.0);
            gone.preempt(state.now, &self.outlook.cost);
            state.enqueue(gone);
        }
        state
    }
}

/// Scenarios in which a promise may be broken at this level.
fn misses_max(count: u32, level: f64) -> u32 {
    #[expect(clippy::cast_possible_truncation, reason = "a share of a count")]
    #[expect(clippy::cast_sign_loss, reason = "it is not negative")]
    let misses = (f64::from(count) * (1.0 - level)) as u32;
    misses
}
