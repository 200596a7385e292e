//! What the scheduler is told.

use std::sync::Arc;

use sample::Sampling;
use units::{Micros, RequestId, Span, Token};

/// What was promised to a request. The order is the planning order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// Admitted with a latency bound.
    Promised,
    /// Admitted without: planned behind every promise.
    BestEffort,
}

/// An input of the scheduler.
#[derive(Clone, Debug)]
pub enum Command {
    /// Queue a request. Answered by `Accepted` or `Refused`.
    Submit(Submission),
    /// End a request wherever it is. Unknown ids are ignored: it may just have finished.
    Cancel(RequestId),
    /// A prompt was seen that may soon be submitted: what is kept of it is the last to be evicted.
    Touch(Arc<[Token]>),
    /// Refuse what comes from now on; what is here finishes.
    Drain,
    /// End everything.
    Stop,
}

/// A request, bounded and checked: the prompt is not empty, its ids are in the vocabulary, prompt
/// and `max_tokens` fit the context together, `max_tokens` is at least 1.
#[derive(Clone, Debug)]
pub struct Submission {
    /// Not in the system yet, or it is refused.
    pub id: RequestId,
    /// When it reached the engine: it may have waited for a step to end. Its timings count from here.
    pub submitted_at: Micros,
    /// The prompt.
    pub prompt: Arc<[Token]>,
    /// How tokens are drawn.
    pub sampling: Sampling,
    /// Say how likely each token was, and which so many tokens were the likeliest.
    pub top_logprobs: Option<u32>,
    /// Cap on sampled tokens.
    pub max_tokens: u32,
    /// What it was promised.
    pub tier: Tier,
    /// The epoch under which the promiser in office counts it. Without one, the scheduler's own cap
    /// applies.
    pub epoch: Option<u64>,
    /// When it should be done.
    pub deadline: Option<Micros>,
    /// How soon its first token should be there. Told to whoever watches.
    pub first_token: Option<Span>,
    /// Best-effort requests that go back to the queue for it.
    pub evict: Vec<RequestId>,
}
