//! Lets those in the queue in, in order.

use std::sync::Arc;

use units::{Micros, RequestId};

use super::{
    Controller, Current, Where,
    standing::{Standing, context},
};
use crate::{
    Admitted, Attempt, Decision, EngineId, Load, Problem, Saw, SeenEngine, Source, Tier, Totals,
    TracedVerdict, Verdict, Way, Why,
    entry::{Entry, Size, Stage},
    held::{Held, Rank},
    ledger::Place,
    timers::Timer,
    trace::Decided,
};

/// What is to be done about a held request.
enum Turn {
    Admit(Place, usize, Decision),
    /// It keeps those behind it from these places.
    Wait(Vec<Place>),
    /// Waiting cannot help.
    Hopeless,
}

impl Controller {
    /// Lets in whoever fits. Who has just come is looked at in any case.
    pub(super) fn pump(&mut self, now: Micros, newcomer: Option<Rank>) -> Vec<(Attempt, Verdict)> {
        if self.held.len() == 0 {
            return Vec::new();
        }
        match self.settings.policy.queues() {
            true => self.in_turn(now, newcomer),
            false => self.by_cost(now, newcomer),
        }
    }

    /// A twin's queue: nobody stands in anybody's way. The newcomer is looked at, and of those who wait the
    /// cheapest few.
    fn by_cost(&mut self, now: Micros, newcomer: Option<Rank>) -> Vec<(Attempt, Verdict)> {
        let mut granted = Vec::new();
        let mut waiting: Vec<(f64, Rank)> = match newcomer {
            // Nothing has changed for those who wait.
            Some(_) => Vec::new(),
            None => self.held.iter().map(|(rank, held)| (held.cost_us, rank)).collect(),
        };
        waiting.sort_unstable_by(|one, two| one.0.total_cmp(&two.0).then(one.1.cmp(&two.1)));
        let tries = self.settings.policy.deferral().map_or(usize::MAX, |it| it.tries as usize);
        let tried = newcomer.into_iter().chain(waiting.into_iter().map(|it| it.1).take(tries));
        for rank in tried {
            self.look(now);
            match self.consider(now, rank, &[]) {
                Turn::Admit(place, candidate, decision) => {
                    granted.extend(self.admit(now, rank, place, candidate, decision));
                }
                Turn::Wait(_) => {}
                Turn::Hopeless => self.hurry(now, rank),
            }
        }
        granted
    }

    /// Patience has ended: a twin looks once more.
    pub(super) fn last_try(&mut self, now: Micros, rank: Rank) -> Option<(Attempt, Verdict)> {
        if self.settings.policy.queues() || self.held.get(rank)?.offered_at == now {
            return None;
        }
        self.look(now);
        match self.consider(now, rank, &[]) {
            Turn::Admit(place, candidate, decision) => {
                self.admit(now, rank, place, candidate, decision)
            }
            Turn::Wait(_) | Turn::Hopeless => None,
        }
    }

    /// Whether somebody waits for an engine whose connection is interrupted.
    pub(super) fn may_come_back(&self, now: Micros, rank: Rank) -> bool {
        self.held.get(rank).is_some_and(|held| {
            let mut candidates = 0..held.offer.candidates.len();
            candidates.any(|it| matches!(self.standing(now, held, it), Standing::Interrupted))
        })
    }

    /// Looks anew at engines that have changed.
    pub(super) fn look(&mut self, now: Micros) {
        let policy = self.settings.policy;
        self.engines.values_mut().for_each(|engine| engine.look(now, &policy));
    }

    /// Lets in, in order, everybody who fits.
    fn in_turn(&mut self, now: Micros, newcomer: Option<Rank>) -> Vec<(Attempt, Verdict)> {
        let mut granted = Vec::new();
        let mut blocked: Vec<Place> = Vec::new();
        let mut cursor = None;
        while let Some(rank) = self.held.next(cursor) {
            cursor = Some(rank);
            if self.is_all_blocked(&blocked) {
                // Nobody behind can get in; a newcomer may still be hopeless.
                let behind = newcomer.filter(|newcomer| *newcomer >= rank);
                if let Some(newcomer) = behind
                    && matches!(self.consider(now, newcomer, &blocked), Turn::Hopeless)
                {
                    self.hurry(now, newcomer);
                }
                break;
            }
            match self.consider(now, rank, &blocked) {
                Turn::Admit(place, candidate, decision) => {
                    granted.extend(self.admit(now, rank, place, candidate, decision));
                }
                Turn::Wait(places) => blocked.extend(places),
                Turn::Hopeless => self.hurry(now, rank),
            }
        }
        granted
    }

    fn consider(&self, now: Micros, rank: Rank, blocked: &[Place]) -> Turn {
        let held = self.held.get(rank).expect("the cursor is in the queue");
        if self.draining || held.budget.has_run_out() {
            return Turn::Hopeless;
        }
        // Allocates only when there is something to decide: behind a blocked one there is not.
        let mut choices = Vec::new();
        let mut waits = false;
        for candidate in 0..held.offer.candidates.len() {
            match self.standing(now, held, candidate) {
                Standing::Interrupted => waits = true,
                Standing::Draining | Standing::Gone | Standing::Unfit(_) => {}
                Standing::Ready(_) if self.is_blocked(held, candidate, blocked) => waits = true,
                Standing::Ready(engine) => choices.push(self.choice(held, candidate, engine)),
            }
        }
        if choices.is_empty() {
            return if waits { Turn::Wait(Vec::new()) } else { Turn::Hopeless };
        }
        let problem = Problem { now, context: context(held, now), choices: &choices };
        match self.settings.policy.decide(&problem) {
            Decision::Wait(_) => {
                Turn::Wait(choices.iter().filter_map(|it| self.place(held, it.candidate)).collect())
            }
            decision @ Decision::Admit { choice, .. } => {
                let candidate = choices[choice].candidate;
                let place = self.place(held, candidate).expect("a choice has a place");
                if self.is_full(&place) {
                    return Turn::Hopeless;
                }
                Turn::Admit(place, candidate, decision)
            }
        }
    }

    /// Without open entries of callers without an engine, none of these can be waiting for one to
    /// close either.
    fn is_all_blocked(&self, blocked: &[Place]) -> bool {
        let blocks = |id: &EngineId| blocked.contains(&Place::Engine(*id));
        self.standalone.is_empty() && !self.engines.is_empty() && self.engines.keys().all(blocks)
    }

    fn is_blocked(&self, held: &Held, candidate: usize, blocked: &[Place]) -> bool {
        self.place(held, candidate).is_some_and(|place| blocked.contains(&place))
    }

    fn is_full(&self, place: &Place) -> bool {
        matches!(place, Place::Standalone(_)) && self.standalone_len >= self.settings.standalone_max
    }

    fn admit(
        &mut self,
        now: Micros,
        rank: Rank,
        place: Place,
        candidate: usize,
        decision: Decision,
    ) -> Option<(Attempt, Verdict)> {
        let Decision::Admit { tier, bound, confidence, evict, propensity, .. } = decision else {
            return None;
        };
        let saw = self.saw(now, rank, candidate);
        let law = self.settings.policy.scenarios().map(|_| ());
        let law =
            law.map(|()| self.law(self.held.get(rank).expect("who is let in is held"), candidate));
        let held = self.unqueue(rank)?;
        let waited = now.since(held.offered_at);
        let verdict = TracedVerdict::Admitted { tier, bound, confidence, propensity };
        let Attempt { id, number } = held.offer.attempt;
        let decided = Decided {
            attempt: number,
            offered_at: held.offered_at,
            offered_unix: held.offer.unix,
            saw,
            verdict,
            held: waited,
            way: Way::default(),
        };
        let (stage, epoch) = self.stage(now, &place, &held);
        let mut entry = Entry::new(Size::of(&held.offer, candidate), stage);
        entry.decided = Some(Box::new(decided));
        let left = held.budget.after(waited);
        entry.tier = tier;
        entry.entered_at = now;
        entry.deadline = left.e2e.map(|left| now + left);
        entry.first_by = left.ttft.filter(|_| tier == Tier::Promised).map(|left| now + left);
        entry.law = law;
        self.foresee(now, &place, &mut entry, id);
        self.enter(now, &place, id, number, entry);
        self.counters.admitted += 1;
        let admitted = Admitted {
            tier,
            candidate: u32::try_from(candidate).expect("offers name few candidates"),
            epoch,
            lease: self.settings.lease,
            budget: held.budget.after(waited),
            bound,
            confidence,
            evict,
            held: waited,
        };
        Some((held.offer.attempt, Verdict::Admitted(admitted)))
    }

    /// Notes when a request is foreseen to end, and what its coming adds for those who were promised.
    fn foresee(&mut self, now: Micros, place: &Place, entry: &mut Entry, id: RequestId) {
        let Place::Engine(engine) = place else { return };
        let Some(state) = self.engines.get_mut(engine) else { return };
        state.admitted_at = now;
        let slots = state.snapshot.as_ref().map_or(0, |it| it.limits.slots);
        entry.load = Load::of(state.ledger.totals().requests + 1, slots);
        let Some(sight) = state.sight.clone() else { return };
        let (end, delays) = sight.delays(now, entry, id);
        entry.foreseen =
            Some(end).filter(|end| entry.tier == Tier::Promised && *end < Micros(u64::MAX));
        for (id, delay) in delays {
            state.ledger.update(id, |it| it.foreseen = it.foreseen.map(|at| at + delay));
        }
    }

    fn stage(&self, now: Micros, place: &Place, held: &Held) -> (Stage, u64) {
        match place {
            Place::Engine(id) => {
                (Stage::Leased { until: now + self.settings.lease }, self.engines[id].epoch)
            }
            Place::Standalone(_) => {
                let budget = held.budget.e2e.unwrap_or(self.settings.budget);
                (Stage::Awaited { until: held.offered_at + budget + budget }, 0)
            }
        }
    }

    fn enter(&mut self, now: Micros, place: &Place, id: RequestId, attempt: u32, entry: Entry) {
        if let Some(until) = entry.until() {
            self.timers.arm(until, Timer::Entry(place.clone(), id));
        }
        if let Place::Standalone(instance) = place {
            self.standalone.entry(Arc::clone(instance)).or_default();
            self.standalone_len += 1;
        }
        let ledger = self.ledger_mut(place).expect("a choice has a ledger");
        // An older attempt that still runs there is about to be cancelled: one of the two counts.
        let replaced = ledger.insert(id, entry);
        self.current.insert(id, Current { attempt, at: Where::In(place.clone()) });
        if let Some(replaced) = replaced {
            let outcome = replaced.cut(Why::Replaced, now);
            self.close(id, replaced, outcome);
        }
    }

    pub(super) fn saw(&self, now: Micros, rank: Rank, candidate: usize) -> Saw {
        let held = self.held.get(rank).expect("who is decided about is in the queue");
        let (in_system, engine) = match self.standing(now, held, candidate) {
            Standing::Ready(view) => (view.totals, Some(SeenEngine::of(now, &view))),
            Standing::Interrupted | Standing::Draining | Standing::Gone | Standing::Unfit(_) => {
                (Totals::default(), None)
            }
        };
        let instance = match &held.offer.candidates[candidate].source {
            Source::Watched(instance) => Arc::clone(instance),
            Source::Passed(snapshot) => Arc::clone(&snapshot.instance),
        };
        let size = Size::of(&held.offer, candidate);
        Saw { in_system, engine, ..Saw::of(held).at(instance, size) }
    }
}
