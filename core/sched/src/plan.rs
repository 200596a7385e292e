//! What one step does, and what came of it.

use std::{ops::Range, sync::Arc};

use sample::{Logprobs, Sampling};
use units::{Owner, RequestId, Slot, Span, Token};

use crate::StepShape;

/// One engine step: moves, then joins, then rows. Owns everything it names, so that it outlives any
/// change to the scheduler.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepPlan {
    /// Steps are numbered from 1.
    pub number: u64,
    /// What happens to kept prefixes first, in order. Done even if the rest of the step fails, unless the
    /// plan was [unfit](crate::EngineError::Unfit).
    pub moves: Vec<Move>,
    /// Sequences that take a slot in this step. The engine forgets whatever the slot held, unless the
    /// join reuses a prefix.
    pub joins: Vec<Join>,
    /// Sequences that sample one more token each.
    pub decodes: Vec<Decode>,
    /// Pieces of prompts: of those that run, then of those that join, each in planning order.
    pub prefills: Vec<Prefill>,
    /// The step as its cost sees it.
    pub shape: StepShape,
    /// What the planner expects it to take.
    pub predicted: Span,
}

/// What happens to a kept prefix, or to what a sequence leaves behind. Between two steps, so a slot still
/// holds what the last step left in it, whether its sequence has ended or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// The slot's first `tokens` tokens are kept under an owner that keeps nothing. The slot holds
    /// them, and perhaps more.
    Keep {
        /// Where they are.
        slot: Slot,
        /// Under which name.
        owner: Owner,
        /// How many. At least 1.
        tokens: u32,
    },
    /// The owner keeps only its first tokens.
    Cut {
        /// Who.
        owner: Owner,
        /// How many. At least 1, fewer than it keeps.
        tokens: u32,
    },
    /// What the owner keeps is given up.
    Drop {
        /// Whose.
        owner: Owner,
    },
    /// What the slot holds is given up: its sequence has ended or was preempted, and its blocks may be
    /// somebody else's by now.
    Leave {
        /// Which.
        slot: Slot,
    },
}

/// A sequence begins with a kept prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reuse {
    /// Who keeps it.
    pub owner: Owner,
    /// How much of it: at least 1 and less than the sequence's history.
    pub tokens: u32,
}

/// A sequence takes a slot.
#[derive(Clone, Debug, PartialEq)]
pub struct Join {
    /// The slot it owns until it ends.
    pub slot: Slot,
    /// Whose it is.
    pub id: RequestId,
    /// How its tokens are drawn. A sequence that was preempted and joins again goes on as if it had
    /// not been.
    pub sampling: Sampling,
    /// The prompt, and after a preemption what was sampled before it.
    pub history: Arc<[Token]>,
    /// Tokens at the end of `history` that were sampled.
    pub sampled: u32,
    /// Log probabilities are wanted, and of this many of the likeliest tokens.
    pub top_logprobs: Option<u32>,
    /// The beginning of `history` that need not be computed.
    pub reuse: Option<Reuse>,
}

impl Join {
    /// The prompt, and what was sampled after it.
    #[must_use]
    pub fn prompt_and_answer(&self) -> (&[Token], &[Token]) {
        self.history.split_at(self.history.len().saturating_sub(self.sampled as usize))
    }
}

/// One more token of a running sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decode {
    /// Where it lives.
    pub slot: Slot,
    /// Whose it is.
    pub id: RequestId,
    /// The last sampled token, whose KV this step computes.
    pub token: Token,
    /// The position of `token`.
    pub position: u32,
}

/// A piece of a prompt.
#[derive(Clone, Debug, PartialEq)]
pub struct Prefill {
    /// Where it lives.
    pub slot: Slot,
    /// Whose it is.
    pub id: RequestId,
    /// The whole prompt (with what was sampled before a preemption).
    pub prompt: Arc<[Token]>,
    /// The piece of it that this step computes; its indices are the positions.
    pub range: Range<usize>,
    /// Whether the prompt ends here, so that the first token is sampled.
    pub last: bool,
}

impl Prefill {
    /// The tokens that this step computes.
    #[must_use]
    pub fn tokens(&self) -> &[Token] {
        &self.prompt[self.range.clone()]
    }
}

impl StepPlan {
    /// Nothing to compute. Moves alone make no step: they wait for the next.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.decodes.is_empty() && self.prefills.is_empty()
    }

    /// Rows of the backend's batch.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.decodes.len() + self.prefills.iter().map(|piece| piece.range.len()).sum::<usize>()
    }
}

/// What a step produced.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepOutcome {
    /// One token for each decode and each last prefill of the plan, in the plan's order, decodes
    /// first.
    pub sampled: Vec<Sampled>,
    /// How long it took.
    pub took: Span,
    /// On what, as far as the engine knows.
    pub spent: Spent,
    /// Owners of the plan's moves that could not keep what they should: they keep nothing.
    pub lost: Vec<Owner>,
}

/// What an engine spent a step on. The rest of the step went into the batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Keeping prefixes and beginning sequences.
    pub moving: Span,
    /// Inside the backend.
    pub decoding: Span,
    /// Logits to tokens.
    pub sampling: Span,
}

/// One sampled token.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampled {
    /// Whose it is.
    pub id: RequestId,
    /// The token.
    pub token: Token,
    /// Whether the answer ends with it: an end-of-turn token (said by the engine) or a completed stop
    /// sequence (said by the text layer).
    pub stop: bool,
    /// How likely it was, where that is wanted.
    pub logprobs: Option<Logprobs>,
}
