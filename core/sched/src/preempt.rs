//! Running sequences go back to the queue.

use units::{Micros, RequestId, Span};

use crate::{Cause, PlanKey, Scheduler, StepShape, Tier, seq::count};

/// Doubling stops here: by then a sequence has long ended by its deadline.
const DOUBLINGS_MAX: u32 = 16;

impl Scheduler {
    /// Sends a running best-effort request back to the queue on admission's order. Promises are never
    /// evicted, and an id that has just finished is nobody's fault.
    pub(crate) fn evict(&mut self, now: Micros, id: RequestId) {
        let Some(&key) = self.keys.get(&id) else { return };
        if self.running.get(&key).is_some_and(|it| it.tier == Tier::BestEffort) {
            self.preempt(now, key, Cause::Order);
        }
    }

    /// Sends a running request back to the queue, where it keeps its place, but may not join before it
    /// has waited as long as it takes to compute it again, doubled with every time: so two that displace
    /// each other spend less and less of the machine on it.
    pub(crate) fn preempt(&mut self, now: Micros, key: PlanKey, cause: Cause) {
        let mut sequence = self.running.remove(&key).expect("only who runs is preempted");
        let (seat, times) = sequence.preempt();
        let prefill = count(sequence.history.len());
        let again = self.cost.predict(StepShape { prefill, ..StepShape::default() });
        let doubled = 1u64 << (times - 1).min(DOUBLINGS_MAX);
        sequence.rests_until = Some(now + Span(again.0.saturating_mul(doubled)));
        self.counters.preempted(cause);
        self.queue.insert(sequence);
        self.vacate(seat);
    }
}
