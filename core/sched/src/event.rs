//! What the scheduler says.

use units::{BlockCount, RequestId, Span, Token};

use crate::{StepShape, Tier};

/// An output of the scheduler, in the order in which things happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A request is in the queue.
    Accepted {
        /// Whose.
        id: RequestId,
        /// What it runs as.
        tier: Tier,
        /// The epoch under which the promiser in office counts it.
        epoch: Option<u64>,
        /// Prompt length.
        prompt_tokens: u32,
        /// Cap on sampled tokens.
        max_tokens: u32,
        /// What is left of its budget, if it has one.
        budget: Option<Span>,
        /// How soon its first token should be there, if that was asked for.
        first_token: Option<Span>,
        /// Blocks that it will hold at most, those that it shares included.
        blocks: BlockCount,
    },
    /// A request is not in the queue.
    Refused {
        /// Whose.
        id: RequestId,
        /// Why.
        refusal: Refusal,
    },
    /// A request has a slot. Said again after a preemption.
    Started {
        /// Whose.
        id: RequestId,
        /// Tokens at its beginning that need not be computed.
        cached_tokens: u32,
    },
    /// A token was sampled.
    Token {
        /// Whose.
        id: RequestId,
        /// Which.
        token: Token,
        /// Whether it is the request's first.
        first: bool,
    },
    /// A request is gone. Said exactly once for each that was accepted, and last.
    Finished {
        /// Whose.
        id: RequestId,
        /// Why.
        reason: FinishReason,
        /// What it used.
        usage: Usage,
        /// When what happened.
        timings: Timings,
    },
    /// A step was committed.
    Step(StepRecord),
}

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The id is in the system.
    #[error("the request is already running")]
    Duplicate,
    /// The queue is full.
    #[error("{waiting} requests wait already, the limit is {limit}")]
    QueueFull {
        /// Waiting now.
        waiting: u32,
        /// The limit.
        limit: u32,
    },
    /// The cap on requests that nobody leased.
    #[error("{unleased} requests run without a lease already, the limit is {limit}")]
    UnleasedFull {
        /// In the system now.
        unleased: u32,
        /// The limit.
        limit: u32,
    },
    /// It could never run.
    #[error("the request needs {needed} KV blocks, the engine has {total}")]
    TooLarge {
        /// Blocks it needs.
        needed: u32,
        /// Blocks there are.
        total: u32,
    },
    /// Nothing new is taken.
    #[error("the engine is draining")]
    Draining,
}

/// Why a request ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// An end-of-turn token or a stop sequence.
    Stop,
    /// The cap on tokens.
    Length,
    /// It was cancelled.
    Cancelled,
    /// Its deadline passed: before it had a slot, or while it ran and late work is aborted.
    Deadline,
    /// It was preempted, and its deadline passed before it had a slot again.
    Evicted,
    /// The engine stopped.
    Shutdown,
    /// The backend failed, and how.
    Failed(String),
}

/// Tokens of one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Of the prompt.
    pub prompt_tokens: u32,
    /// Sampled, the one that ended the answer included.
    pub completion_tokens: u32,
    /// Of the prompt, not computed but found when it first had a slot.
    pub cached_tokens: u32,
}

/// Measured from submission.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timings {
    /// When it got a slot.
    pub started: Option<Span>,
    /// When its first token was there.
    pub first_token: Option<Span>,
    /// When it ended.
    pub finished: Span,
}

/// A committed step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepRecord {
    /// Its number.
    pub step: u64,
    /// What it did.
    pub shape: StepShape,
    /// What it took.
    pub took: Span,
    /// What it was expected to take.
    pub predicted: Span,
    /// Running sequences after it.
    pub running: u32,
    /// Waiting sequences after it.
    pub waiting: u32,
}
