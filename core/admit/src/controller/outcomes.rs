//! Closes decisions.

use std::sync::Arc;

use units::{Micros, RequestId};

use super::{Controller, Current, Effect, Where};
use crate::{
    Attempt, How, Observation, Outcome, Why,
    entry::{Entry, Stage},
    ledger::Place,
    trace::Decided,
};

impl Controller {
    /// A caller without an engine tells how its request ended. Says whether that attempt was known.
    pub fn observe(&mut self, now: Micros, attempt: Attempt, observation: Observation) -> bool {
        let Some(Current { attempt: number, at: Where::In(place) }) = self.current.get(&attempt.id)
        else {
            return false;
        };
        if *number != attempt.number || !matches!(place, Place::Standalone(_)) {
            return false;
        }
        let place = place.clone();
        self.take_out(&place, attempt.id, |_| Outcome::Ended(observation));
        self.wake(now);
        true
    }

    /// The service ends: every decision that is still open is closed with what is known of it. Who is held
    /// has to be answered before, by [`Controller::drain`] and [`Controller::tick`].
    pub fn stop(&mut self, now: Micros) {
        self.draining = true;
        let places: Vec<_> = (self.engines.keys().map(|id| Place::Engine(*id)))
            .chain(self.standalone.keys().map(|instance| Place::Standalone(Arc::clone(instance))))
            .collect();
        for place in places {
            let Some(ledger) = self.ledger(&place) else { continue };
            // What others let in is none of ours, and stays with its engine.
            let ours = ledger.iter().filter(|(_, entry)| entry.decided.is_some());
            let ours: Vec<_> = ours.map(|(id, _)| id).collect();
            for id in ours {
                self.take_out(&place, id, |entry| entry.cut(Why::Stopped, now));
            }
        }
    }

    /// The end of a request that was let in and that nobody will submit or report.
    pub(super) fn break_off(&mut self, now: Micros, place: &Place, id: RequestId, how: How) {
        self.take_out(place, id, |entry| Outcome::Ended(entry.broken_off(how, now)));
    }

    /// A lease or the wait for an observation has run out.
    pub(super) fn entry_ended(&mut self, now: Micros, place: &Place, id: RequestId) {
        let Some(entry) = self.ledger(place).and_then(|ledger| ledger.get(id)) else { return };
        let why = match entry.stage {
            Stage::Leased { .. } | Stage::Running { .. } => Why::Unsubmitted,
            Stage::Awaited { .. } => Why::Unreported,
        };
        if let (Stage::Leased { .. }, Some(decided)) = (entry.stage, &entry.decided) {
            let attempt = Attempt { id, number: decided.attempt };
            self.counters.leases_expired += 1;
            self.effects.push(Effect::LeaseExpired(attempt));
        }
        self.take_out(place, id, |entry| entry.cut(why, now));
    }

    fn take_out(&mut self, place: &Place, id: RequestId, outcome: impl FnOnce(&Entry) -> Outcome) {
        let Some(entry) = self.ledger_mut(place).and_then(|ledger| ledger.remove(id)) else {
            return;
        };
        if let Place::Standalone(instance) = place {
            self.standalone_len -= 1;
            if self.standalone.get(instance).is_some_and(|left| left.totals().requests == 0) {
                self.standalone.remove(instance);
            }
        }
        let outcome = outcome(&entry);
        self.leave(place, id, entry, outcome);
    }

    pub(super) fn close(&mut self, id: RequestId, entry: Entry, outcome: Outcome) {
        let Some(decided) = entry.decided else { return };
        match outcome {
            Outcome::Censored(_) => self.counters.censored += 1,
            Outcome::Ended(_) => self.counters.finished += 1,
            Outcome::Refused => {}
        }
        self.close_decided(id, *decided, outcome);
    }

    pub(super) fn close_decided(&mut self, id: RequestId, decided: Decided, outcome: Outcome) {
        self.effects.push(Effect::Closed(Box::new(decided.close(id, outcome))));
    }
}
