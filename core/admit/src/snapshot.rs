//! The state of an engine, as its planner sees it at a step boundary.

use std::sync::Arc;

use sched::{Bend, Rules};
use units::{BlockCount, Micros, RequestId, Span, TokenCount};

/// What was promised to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// A latency bound that later admissions may not break.
    Promised,
    /// Nothing: scheduled behind every promise and evicted first.
    BestEffort,
}

/// Where a request is in its life inside an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// No slot yet.
    Waiting,
    /// Its prompt is being computed.
    Prefill,
    /// It is being answered.
    Decode,
}

/// One request inside an engine.
#[derive(Clone, Debug, PartialEq)]
pub struct Sequence {
    /// Which request.
    pub id: RequestId,
    /// How far it is.
    pub phase: Phase,
    /// What was promised.
    pub tier: Tier,
    /// Whether a promiser let it in.
    pub leased: bool,
    /// Length of the prompt.
    pub prompt: TokenCount,
    /// Tokens whose KV exists.
    pub computed: TokenCount,
    /// Tokens answered so far.
    pub generated: TokenCount,
    /// Cap on generated tokens.
    pub max_tokens: TokenCount,
    /// When its budget runs out, on the controller's clock. A late one lies in the past.
    pub deadline: Option<Micros>,
    /// When it was submitted, on the controller's clock.
    pub submitted_at: Micros,
    /// KV blocks that it holds.
    pub blocks: BlockCount,
    /// Until when it may not have a slot, because it was preempted; on the controller's clock.
    pub rests_until: Option<Micros>,
}

/// Bounds of one engine, fixed for the life of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineLimits {
    /// Sequences that run at once.
    pub slots: u32,
    /// Tokens that prompt and answer of one request may have together.
    pub context: TokenCount,
    /// Rows of one backend batch.
    pub batch: TokenCount,
    /// Prompt tokens of one step.
    pub prefill: TokenCount,
    /// No step is planned that is predicted to take longer.
    pub step: Span,
    /// Requests that may wait for a slot.
    pub waiting: u32,
    /// The whole KV cache.
    pub kv: BlockCount,
}

/// KV blocks by what happens to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KvUsage {
    /// Held by sequences.
    pub held: BlockCount,
    /// Kept for reuse, given up when somebody needs them: as good as free.
    pub reclaimable: BlockCount,
    /// Held by nobody.
    pub free: BlockCount,
}

/// The time of one step: `base + per_decode * decodes + bend(decodes) + prompt (with any prompt tokens) +
/// per_prefill_token * tokens + per_cell * cells`, all times `gain`; but of the cells of prompts those after
/// the first 16,384 cost `per_tiled_cell`. In microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StepCost {
    /// Of any step.
    pub base: f64,
    /// Of each sequence that is answered.
    pub per_decode: f64,
    /// Of each prompt token.
    pub per_prefill_token: f64,
    /// Of each attended KV cell.
    pub per_cell: f64,
    /// How much slower (above 1) the machine is than when the rest was measured.
    pub gain: f64,
    /// Of each cell that a prompt attends to after the first.
    pub per_tiled_cell: f64,
    /// Of any prompt at all, beside its tokens.
    pub prompt: f64,
    /// What sequences that are answered take beyond `per_decode` each.
    pub bend: Bend,
}

/// The whole state of a planner.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// Changes whenever the engine process starts. May be empty for a passed snapshot.
    pub instance: Arc<str>,
    /// When it was taken, on the controller's clock.
    pub taken_at: Micros,
    /// Number of the last step.
    pub step: u64,
    /// Number of the last record that it includes.
    pub record: u64,
    /// Identifies the planning rules.
    pub planner: Arc<str>,
    /// Bounds of the engine.
    pub limits: EngineLimits,
    /// The rules that it plans by; absent when they are not known here.
    pub rules: Option<Rules>,
    /// The engine's model of its own speed.
    pub cost: StepCost,
    /// The KV cache.
    pub kv: KvUsage,
    /// In planning order: running ones first.
    pub sequences: Vec<Sequence>,
    /// Whether it accepts nothing more.
    pub draining: bool,
}

impl From<StepCost> for sched::StepCost {
    fn from(cost: StepCost) -> Self {
        Self {
            base_us: cost.base,
            per_decode_us: cost.per_decode,
            per_prefill_token_us: cost.per_prefill_token,
            per_cell_us: cost.per_cell,
            gain: cost.gain,
            per_tiled_cell_us: cost.per_tiled_cell,
            prompt_us: cost.prompt,
            bend: cost.bend,
        }
    }
}

impl From<sched::StepCost> for StepCost {
    fn from(cost: sched::StepCost) -> Self {
        Self {
            base: cost.base_us,
            per_decode: cost.per_decode_us,
            per_prefill_token: cost.per_prefill_token_us,
            per_cell: cost.per_cell_us,
            gain: cost.gain,
            per_tiled_cell: cost.per_tiled_cell_us,
            prompt: cost.prompt_us,
            bend: cost.bend,
        }
    }
}

impl StepCost {
    /// Tokens a second when every slot is being answered, if the model says anything at all.
    #[must_use]
    pub fn rate(&self, slots: u32) -> Option<f64> {
        let bend = self.bend.at(slots);
        let slots = f64::from(slots);
        let step_us = (self.base + self.per_decode * slots + bend) * self.gain;
        let rate = slots / step_us * 1e6;
        (rate.is_finite() && rate > 0.0).then_some(rate)
    }
}

impl KvUsage {
    /// Blocks that a newcomer could get.
    #[must_use]
    pub fn room(&self) -> u64 {
        u64::from(self.free.0) + u64::from(self.reclaimable.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_model_that_says_nothing_gives_no_rate() {
        let cost =
            |base, per_decode, gain| StepCost { base, per_decode, gain, ..StepCost::default() };
        assert_eq!(cost(4_000.0, 4_000.0, 1.0).rate(4), Some(200.0));
        for silent in [cost(0.0, 0.0, 1.0), cost(1.0, 1.0, f64::NAN), cost(-9.0, 0.0, 1.0)] {
            assert_eq!(silent.rate(4), None, "{silent:?}");
        }
        assert_eq!(cost(1.0, 1.0, 1.0).rate(0), None);
    }
}
