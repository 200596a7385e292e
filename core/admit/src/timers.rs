//! When the controller has to be woken.

use std::collections::BTreeSet;

use units::{Micros, RequestId};

use crate::ledger::Place;

/// What runs out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// The patience of a held request.
    Held(RequestId),
    /// A lease, or the wait for an observation.
    Entry(Place, RequestId),
}

/// Armed timers, soonest first. Whoever arms one disarms it when its reason is gone, so that none
/// fires for something that has ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timers(BTreeSet<(Micros, Timer)>);

impl Timers {
    pub(crate) fn arm(&mut self, at: Micros, timer: Timer) {
        let new = self.0.insert((at, timer));
        debug_assert!(new, "armed twice");
    }

    pub(crate) fn disarm(&mut self, at: Micros, timer: Timer) {
        let armed = self.0.remove(&(at, timer));
        debug_assert!(armed, "was not armed");
    }

    pub(crate) fn next(&self) -> Option<Micros> {
        self.0.first().map(|(at, _)| *at)
    }

    /// The soonest timer if it is due. Ending what it stands for disarms it.
    pub(crate) fn due(&self, now: Micros) -> Option<Timer> {
        self.0.first().filter(|(at, _)| *at <= now).map(|(_, timer)| timer.clone())
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}
