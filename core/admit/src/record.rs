//! What an engine tells about its steps and about the life of its requests.

use sched::StepShape;
use units::{BlockCount, RequestId, Span, TokenCount};

use crate::Tier;

/// One numbered record. An engine numbers them from 1 without gaps; the caller checks that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its number.
    pub number: u64,
    /// What happened.
    pub event: Event,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A step was run.
    Step(Step),
    /// A request reached the engine.
    Submitted(RequestId, Submitted),
    /// A request got a slot, with this much of its prompt found in the cache.
    Started(RequestId, TokenCount),
    /// A request has its first token.
    FirstToken(RequestId),
    /// A request has left the engine.
    Finished(RequestId, Ended),
}

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// How long it took.
    pub took: Span,
    /// Sequences that got a token.
    pub decodes: TokenCount,
    /// Prompt tokens computed.
    pub prefill: TokenCount,
    /// KV cells that all rows attended to together; 0 when the engine does not say.
    pub cells: u64,
    /// Those of them that prompt tokens attended to.
    pub prefill_cells: u64,
}

impl Step {
    pub(crate) fn shape(&self) -> StepShape {
        StepShape {
            decodes: self.decodes.0,
            prefill: self.prefill.0,
            cells: self.cells,
            prefill_cells: self.prefill_cells,
        }
    }
}

/// A request as it reached the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Submitted {
    /// Length of the prompt.
    pub prompt: TokenCount,
    /// Cap on generated tokens.
    pub max_tokens: TokenCount,
    /// What it really runs as.
    pub tier: Tier,
    /// KV blocks that the engine sets aside for it; 0 when it does not say.
    pub blocks: BlockCount,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Whether its answer is whole.
    pub how: How,
    /// Tokens answered.
    pub completion: TokenCount,
    /// From submission to the first token.
    pub ttft: Option<Span>,
    /// From submission to the end.
    pub e2e: Span,
}

/// The kinds of end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// By itself or at its cap.
    Completed,
    /// The client left.
    Cancelled,
    /// Too late, evicted, or the engine failed.
    Failed,
}
