//! What prompts may add to the gap between two tokens of an answer.

use units::Span;

use super::{Running, StepProblem};
use crate::{Limits, Order, StepCost, StepShape};

/// Prompt tokens that a step may always hold in its turn, so that answers never stop prompts.
pub(super) const CHUNK_MIN: u32 = 16;

/// Under decode-first, one step of this many is in turn: it holds the smallest chunk, whatever the target.
const TURN: u64 = 8;

/// The target of a step beside answers that run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    /// A step with prompt tokens takes no longer than this,
    most: Span,
    /// unless it has no more of them than this: 0 or [`CHUNK_MIN`].
    spare: u32,
}

impl Target {
    /// The target of the step that `problem` asks for. None without one in the rules, and none when nobody
    /// waits for a next token: whoever runs is in its prompt, or finds no block and cannot go on anyway.
    pub(super) fn find(
        problem: &StepProblem,
        limits: &Limits,
        staying: &[Running],
        stuck: &[usize],
    ) -> Option<Self> {
        let most = limits.rules.itl?;
        let decodes = |(at, it): (usize, &Running)| it.prefill_left == 0 && !stuck.contains(&at);
        let in_turn = match limits.rules.order {
            Order::DecodeFirst => problem.step.is_multiple_of(TURN),
            Order::PrefillFirst => true,
        };
        let spare = if in_turn { CHUNK_MIN } else { 0 };
        staying.iter().enumerate().any(decodes).then_some(Self { most, spare })
    }

    /// Whether a step with prompt tokens may look like this. Of two shapes that differ in the length of one
    /// piece, the shorter may whenever the longer may.
    pub(super) fn allows(self, shape: StepShape, cost: &StepCost) -> bool {
        shape.prefill <= self.spare || cost.predict(shape) <= self.most
    }
}
