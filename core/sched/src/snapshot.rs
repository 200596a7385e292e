//! The planner's state at a step boundary, as data.

use units::{BlockCount, Micros, RequestId, Span};

use crate::{
    Counters, Limits, Phase, Scheduler, StepCost, Tier,
    seq::{Sequence, count},
};

/// Everything that the next plan depends on.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// Number of the last planned step.
    pub step: u64,
    /// Bounds, and the rules within them.
    pub limits: Limits,
    /// What steps cost.
    pub cost: StepCost,
    /// The KV blocks.
    pub kv: kv::Usage,
    /// What is kept of prompts, and what was found.
    pub cache: kv::Counters,
    /// What became of requests that did not simply run to their end.
    pub counters: Counters,
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
    /// Those of them that are kept for others too.
    pub shared: BlockCount,
    /// Tokens of the prompt that were found when it first had a slot.
    pub cached_tokens: u32,
    /// How long it may not join yet, because it was preempted.
    pub eligible_in: Span,
}

impl Scheduler {
    /// The state now. Between steps only.
    #[must_use]
    pub fn snapshot(&self, now: Micros) -> Snapshot {
        let sequences = self.running.values().chain(self.queue.iter());
        Snapshot {
            step: self.step,
            limits: self.limits,
            cost: self.cost,
            kv: self.cache.usage(),
            cache: self.cache.counters(),
            counters: self.counters,
            sequences: sequences.map(|sequence| view(sequence, now)).collect(),
            running: count(self.running.len()),
            draining: self.draining,
        }
    }
}

fn view(sequence: &Sequence, now: Micros) -> SequenceView {
    let lease = sequence.seat.as_ref().map(|seat| &seat.lease);
    let usage = sequence.usage();
    SequenceView {
        id: sequence.id,
        phase: sequence.phase(),
        tier: sequence.tier,
        leased: sequence.epoch.is_some(),
        prompt_tokens: usage.prompt_tokens,
        computed_tokens: sequence.computed,
        generated_tokens: sequence.sampled,
        max_tokens: sequence.max_tokens,
        deadline: sequence.deadline,
        age: sequence.age(now),
        blocks: lease.map_or(BlockCount(0), kv::Lease::len),
        shared: lease.map_or(BlockCount(0), kv::Lease::shared),
        cached_tokens: usage.cached_tokens,
        eligible_in: sequence.rests_until.map_or(Span::ZERO, |until| until.until(now)),
    }
}
