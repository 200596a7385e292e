//! Callers come and go.

use std::cmp::Reverse;

use rand::Rng;
use units::{Micros, RequestId, Span, TokenCount};

use super::{Controller, Current, Effect, Where};
use crate::{
    Attempt, BUDGET_MAX, Budget, How, Observation, Offer, Outcome, PATIENCE_MAX, Saw, Trace,
    Verdict, Way,
    entry::{Size, Stage},
    held::{Held, Rank},
    ledger::Place,
    timers::Timer,
};

impl Controller {
    /// Somebody wants in. `None`: the request is held, and its verdict will be an effect.
    pub fn offer(&mut self, now: Micros, offer: Offer, rng: &mut impl Rng) -> Option<Verdict> {
        let attempt = offer.attempt;
        if let Some(verdict) = self.speaks_already(now, attempt) {
            self.counters.superseded += 1;
            return Some(verdict);
        }
        let rank = self.enqueue(now, offer);
        let mut own = None;
        for (granted, verdict) in self.pump(now, Some(rank)) {
            if granted == attempt {
                own = Some(verdict);
            } else {
                self.effects.push(Effect::Verdict(granted, verdict));
            }
        }
        if own.is_none() && self.may_not_wait(now, rank) {
            own = self.refuse(now, rank, rng).map(|(_, verdict)| verdict);
        }
        own
    }

    /// The caller of this attempt has left without using its verdict. Nothing happens if the attempt
    /// is not known, no longer speaks for its request, or was submitted: then its engine will tell.
    pub fn withdraw(&mut self, now: Micros, attempt: Attempt) {
        let Some(current) = self.current.get(&attempt.id) else { return };
        if current.attempt != attempt.number || !self.is_unsubmitted(attempt, &current.at) {
            return;
        }
        self.counters.withdrawn += 1;
        match current.at.clone() {
            Where::Held(rank) => {
                let held = self.unqueue(rank).expect("an indexed rank is in the queue");
                self.trace_unanswered(now, &held);
            }
            Where::In(place) => self.break_off(now, &place, attempt.id, How::Cancelled),
        }
        self.wake(now);
    }

    /// Nothing more is accepted; whoever is held is due at once.
    pub fn drain(&mut self, now: Micros) {
        self.draining = true;
        let ranks: Vec<_> = self.held.iter().map(|(rank, _)| rank).collect();
        ranks.into_iter().for_each(|rank| self.hurry(now, rank));
    }

    /// Time has come to [`Controller::next_deadline`].
    pub fn tick(&mut self, now: Micros, rng: &mut impl Rng) {
        while let Some(timer) = self.timers.due(now) {
            match timer {
                Timer::Held(id) => self.patience_ended(now, id, rng),
                Timer::Entry(place, id) => self.entry_ended(now, &place, id),
            }
        }
        self.wake(now);
    }

    /// Lets in whoever fits now.
    pub(super) fn wake(&mut self, now: Micros) {
        let granted = self.pump(now, None);
        self.effects
            .extend(granted.into_iter().map(|(who, verdict)| Effect::Verdict(who, verdict)));
    }

    /// An attempt is answered by the one that speaks for its request already, or replaces it.
    fn speaks_already(&mut self, now: Micros, attempt: Attempt) -> Option<Verdict> {
        let current = self.current.get(&attempt.id)?;
        let by = current.attempt;
        if by >= attempt.number {
            return Some(Verdict::Superseded { by });
        }
        match current.at.clone() {
            Where::Held(rank) => {
                let held = self.unqueue(rank).expect("an indexed rank is in the queue");
                self.counters.superseded += 1;
                let verdict = Verdict::Superseded { by: attempt.number };
                self.effects.push(Effect::Verdict(held.offer.attempt, verdict));
            }
            // What its engine runs, it runs until it says that it has finished.
            Where::In(place) if !self.is_unsubmitted(attempt, &Where::In(place.clone())) => {
                self.current.remove(&attempt.id);
            }
            Where::In(place) => self.break_off(now, &place, attempt.id, How::Failed),
        }
        None
    }

    fn is_unsubmitted(&self, attempt: Attempt, at: &Where) -> bool {
        let Where::In(place) = at else { return true };
        let entry = self.ledger(place).and_then(|ledger| ledger.get(attempt.id));
        match entry.expect("an indexed entry is in its ledger").stage {
            Stage::Leased { .. } | Stage::Awaited { .. } => true,
            Stage::Running { .. } => false,
        }
    }

    fn enqueue(&mut self, now: Micros, offer: Offer) -> Rank {
        let e2e = offer.budget.e2e.unwrap_or(self.settings.budget).min(BUDGET_MAX);
        let ttft = offer.budget.ttft.map(|ttft| ttft.min(e2e));
        let patience = offer.patience.unwrap_or(self.settings.patience).min(PATIENCE_MAX).min(e2e);
        self.arrivals += 1;
        let rank =
            Rank { priority: Reverse(offer.priority), deadline: now + e2e, arrival: self.arrivals };
        let attempt = offer.attempt;
        let held = Held {
            offer,
            budget: Budget { e2e: Some(e2e), ttft },
            patience,
            offered_at: now,
            until: now + patience,
            cost_us: 0.0,
        };
        let held = self.appraised(now, held);
        self.timers.arm(held.until, Timer::Held(attempt.id));
        self.held.insert(rank, held);
        let current = Current { attempt: attempt.number, at: Where::Held(rank) };
        self.current.insert(attempt.id, current);
        rank
    }

    /// With the machine time that it asks for at the first engine that can be foreseen. Prices and the floor
    /// of refusals count everybody who asks.
    fn appraised(&mut self, now: Micros, held: Held) -> Held {
        let places = 0..held.offer.candidates.len();
        let known = places.filter_map(|at| match self.place(&held, at) {
            Some(Place::Engine(id)) => Some((at, id)),
            Some(Place::Standalone(_)) | None => None,
        });
        let Some((candidate, id)) = known.into_iter().next() else { return held };
        let law = self.law(&held, candidate);
        let Some(engine) = self.engines.get_mut(&id) else { return held };
        let size = Size::of(&held.offer, candidate);
        let Some(cost) = engine.cost_of(size, &law) else { return held };
        engine.price.offered(now, cost.shared_us);
        let span = |us: f64| Span::from_secs_f64(us / 1e6);
        self.books.floor.offered(now, span(cost.shared_us), span(cost.alone_us), held.budget.e2e);
        Held { cost_us: cost.shared_us, ..held }
    }

    /// Takes a request out of the queue, its timer and its index with it.
    pub(super) fn unqueue(&mut self, rank: Rank) -> Option<Held> {
        let held = self.held.remove(rank)?;
        self.timers.disarm(held.until, Timer::Held(held.offer.attempt.id));
        self.current.remove(&held.offer.attempt.id);
        Some(held)
    }

    /// Makes a held request due at once.
    pub(super) fn hurry(&mut self, now: Micros, rank: Rank) {
        let Some(held) = self.held.get_mut(rank) else { return };
        let (id, before) = (held.offer.attempt.id, held.until);
        held.until = before.min(now);
        let until = held.until;
        self.timers.disarm(before, Timer::Held(id));
        self.timers.arm(until, Timer::Held(id));
    }

    fn may_not_wait(&self, now: Micros, rank: Rank) -> bool {
        let due = self.held.get(rank).is_some_and(|held| held.until <= now);
        let defers = self.settings.policy.queues() || self.settings.policy.deferral().is_some();
        due || !defers && !self.may_come_back(now, rank)
            || self.draining
            || self.held.len() > self.settings.held_max
    }

    fn patience_ended(&mut self, now: Micros, id: RequestId, rng: &mut impl Rng) {
        let Some(Current { at: Where::Held(rank), .. }) = self.current.get(&id) else { return };
        let rank = *rank;
        if let Some((attempt, verdict)) = self.last_try(now, rank) {
            self.effects.push(Effect::Verdict(attempt, verdict));
            return;
        }
        if let Some((attempt, verdict)) = self.refuse(now, rank, rng) {
            self.effects.push(Effect::Verdict(attempt, verdict));
        }
    }

    fn trace_unanswered(&mut self, now: Micros, held: &Held) {
        let waited = now.since(held.offered_at);
        let observation =
            Observation { how: How::Cancelled, ttft: None, e2e: waited, completion: TokenCount(0) };
        let trace = Trace {
            attempt: held.offer.attempt,
            offered_at: held.offered_at,
            offered_unix: held.offer.unix,
            saw: Saw::of(held),
            verdict: None,
            held: waited,
            way: Way::default(),
            outcome: Outcome::Ended(observation),
        };
        self.effects.push(Effect::Closed(Box::new(trace)));
    }
}
