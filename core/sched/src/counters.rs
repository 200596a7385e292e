//! What became of requests that did not simply run to their end.

use crate::{Cause, Tier};

/// Counted since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Sequences preempted because somebody ahead of them needed a block and there was none.
    pub preempted_by_pressure: u64,
    /// Sequences preempted because a promised request needed their slot or their blocks.
    pub preempted_by_promise: u64,
    /// Sequences preempted on admission's order.
    pub evicted_by_order: u64,
    /// Promised sequences ended while they ran, because they were late.
    pub aborted_promised: u64,
    /// Best-effort sequences ended while they ran, because they were late.
    pub aborted_best_effort: u64,
    /// Promised sequences that finish as best effort, because they were late.
    pub demoted: u64,
    /// Plans that the engine refused, and prefixes that it lost: each time everything kept was forgotten.
    pub forgotten: u64,
}

impl Counters {
    pub(crate) fn preempted(&mut self, cause: Cause) {
        let counter = match cause {
            Cause::Pressure => &mut self.preempted_by_pressure,
            Cause::Promise => &mut self.preempted_by_promise,
            Cause::Order => &mut self.evicted_by_order,
        };
        *counter += 1;
    }

    pub(crate) fn aborted(&mut self, tier: Tier) {
        let counter = match tier {
            Tier::Promised => &mut self.aborted_promised,
            Tier::BestEffort => &mut self.aborted_best_effort,
        };
        *counter += 1;
    }
}
