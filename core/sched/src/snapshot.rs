//! The planner's state at a step boundary, as data.

use units::{BlockCount, Micros, RequestId, Span};

use crate::{Limits, Phase, Scheduler, StepCost, Tier, seq::Sequence};

/// Everything that the next plan depends on.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// Number of the last planned step.
    pub step: u64,
    /// Bounds.
    pub limits: Limits,
    /// What steps cost.
    pub cost: StepCost,
    /// The KV blocks.
    pub kv: kv::Usage,
    /// Running sequences, then waiting ones, each in planning order.
    pub sequences: Vec<SequenceView>,
    /// How many of them run.
    pub running: u32,
    /// Nothing new is taken.
    pub draining: bool,
}

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceView {
    /// Whose.
    pub id: RequestId,
    /// Where it is in its life.
    pub phase: Phase,
    /// What it was promised.
    pub tier: Tier,
    /// Whether the promiser in office counts it.
    pub leased: bool,
    /// Prompt length.
    pub prompt_tokens: u32,
    /// Tokens whose KV exists.
    pub computed_tokens: u32,
    /// Tokens sampled.
    pub generated_tokens: u32,
    /// Cap on them.
    pub max_tokens: u32,
    /// When it should be done.
    pub deadline: Option<Micros>,
    /// Since submission.
    pub age: Span,
    /// Blocks held: none while it waits.
    pub blocks: BlockCount,
}

impl Scheduler {
    /// The state now. Between steps only.
    #[must_use]
    pub fn snapshot(&self, now: Micros) -> Snapshot {
        let sequences = self.running.values().chain(self.waiting.values());
        Snapshot {
            step: self.step,
            limits: self.limits,
            cost: self.cost,
            kv: self.cache.usage(),
            sequences: sequences.map(|sequence| view(sequence, now)).collect(),
            running: crate::scheduler::count(self.running.len()),
            draining: self.draining,
        }
    }
}

fn view(sequence: &Sequence, now: Micros) -> SequenceView {
    SequenceView {
        id: sequence.id,
        phase: sequence.phase(),
        tier: sequence.tier,
        leased: sequence.epoch.is_some(),
        prompt_tokens: sequence.usage().prompt_tokens,
        computed_tokens: sequence.computed,
        generated_tokens: sequence.sampled,
        max_tokens: sequence.max_tokens,
        deadline: sequence.deadline,
        age: sequence.age(now),
        blocks: sequence.seat.as_ref().map_or(BlockCount(0), |seat| seat.lease.len()),
    }
}
