//! What remains of a decision once its outcome is known: the rows that later fits learn from.

use std::sync::Arc;

use units::{Micros, RequestId, Span, TokenCount};

use crate::{Attempt, Budget, How, Reason, Tier, Totals};

/// One closed decision.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// Which try of which request.
    pub attempt: Attempt,
    /// When it was offered.
    pub offered_at: Micros,
    /// What the controller saw.
    pub saw: Saw,
    /// What it answered; absent when the caller left before the answer.
    pub verdict: Option<TracedVerdict>,
    /// How long the request was held.
    pub held: Span,
    /// What came of it.
    pub outcome: Outcome,
}

/// What the controller saw when it decided. Nothing of it was learnt later.
#[derive(Clone, Debug, PartialEq)]
pub struct Saw {
    /// The engine it decided about; empty when there was none.
    pub instance: Arc<str>,
    /// Length of the prompt.
    pub prompt: TokenCount,
    /// How much of it was cached.
    pub cached: TokenCount,
    /// Cap on generated tokens.
    pub max_tokens: TokenCount,
    /// The budget in force when the offer was made.
    pub budget: Budget,
    /// What was in the engine's system.
    pub in_system: Totals,
}

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TracedVerdict {
    /// The request was let in.
    Admitted {
        /// What was promised.
        tier: Tier,
        /// The promised bound.
        bound: Option<Span>,
        /// Its confidence.
        confidence: Option<f64>,
        /// The probability with which this verdict was drawn; 1 for a deterministic policy.
        propensity: f64,
    },
    /// It was not.
    Refused(Reason),
}

/// What came of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was not let in.
    Refused,
    /// It ended, and this is how.
    Ended(Observation),
    /// It was let in and never heard of again.
    Censored,
}

/// An observed end. Spans count from the offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observation {
    /// The kind of end.
    pub how: How,
    /// Until the first token.
    pub ttft: Option<Span>,
    /// Until the last one.
    pub e2e: Span,
    /// Tokens answered.
    pub completion: TokenCount,
}

/// A decision whose outcome is still open.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Decided {
    pub(crate) attempt: u32,
    pub(crate) offered_at: Micros,
    pub(crate) saw: Saw,
    pub(crate) verdict: TracedVerdict,
    pub(crate) held: Span,
}

impl Decided {
    pub(crate) fn close(self, id: RequestId, outcome: Outcome) -> Trace {
        Trace {
            attempt: Attempt { id, number: self.attempt },
            offered_at: self.offered_at,
            saw: self.saw,
            verdict: Some(self.verdict),
            held: self.held,
            outcome,
        }
    }
}
