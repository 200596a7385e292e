//! One request, as a simulation sees it.

use sched::{PlanKey, StepCost, StepShape, Tier};
use units::{BlockCount, Micros};

/// A request, running or waiting. Small and plain: a simulation copies all of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Seq {
    /// Its place in the planning order.
    pub(crate) key: PlanKey,
    /// The index of its results.
    pub(crate) who: u32,
    /// Prompt tokens to compute, once it has a slot; 0 while it decodes.
    pub(crate) prefill_left: u32,
    /// Tokens computed; of one that waits those that the cache has.
    pub(crate) computed: u32,
    /// Tokens that it will still sample. At least 1.
    pub(crate) left: u32,
    /// Of its prompt, what the cache will have when it starts again.
    pub(crate) cached: u32,
    /// Blocks that it holds, or takes with a slot.
    pub(crate) blocks: BlockCount,
    /// Blocks that it takes when it starts again.
    pub(crate) all_blocks: BlockCount,
    /// When it may join.
    pub(crate) eligible_at: Micros,
    /// How often it was preempted.
    pub(crate) preemptions: u8,
    /// What happens to late work has happened to it.
    pub(crate) late: bool,
    /// The simulation goes on until it has ended.
    pub(crate) watched: bool,
}

impl Seq {
    pub(crate) fn is_decoding(&self) -> bool {
        self.prefill_left == 0
    }

    pub(crate) fn is_promised(&self) -> bool {
        self.key.tier == Tier::Promised
    }

    /// Loses its slot: what it has computed and sampled becomes its prompt, and it rests for as long as
    /// it takes to compute that again, doubled with every time.
    pub(crate) fn preempt(&mut self, now: Micros, cost: &StepCost) {
        let history = match self.is_decoding() {
            true => self.computed + 1,
            false => self.computed + self.prefill_left,
        };
        let again = cost.predict(StepShape { prefill: history, ..StepShape::default() });
        let doubled = 1u64 << self.preemptions.min(16);
        self.preemptions = self.preemptions.saturating_add(1);
        self.eligible_at = now + units::Span(again.0.saturating_mul(doubled));
        self.computed = self.cached.min(history - 1);
        self.prefill_left = history - self.computed;
        self.blocks = self.all_blocks;
    }
}
