//! What a caller asks for.

use std::sync::Arc;

use units::{Micros, RequestId, Span, TokenCount};

use crate::{AnswerBucket, Snapshot};

/// One try to get a request in. A retry keeps the id and raises the attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Attempt {
    /// The request.
    pub id: RequestId,
    /// 0 for the first try.
    pub number: u32,
}

/// What remains of a request's time. An absent member is unbounded; zero has run out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    /// Until the last token.
    pub e2e: Option<Span>,
    /// Until the first token.
    pub ttft: Option<Span>,
}

/// A request that wants in.
#[derive(Clone, Debug, PartialEq)]
pub struct Offer {
    /// Which request, and which try of it.
    pub attempt: Attempt,
    /// Where it could run, at least one place.
    pub candidates: Vec<Candidate>,
    /// Length of the prompt.
    pub prompt: TokenCount,
    /// Cap on generated tokens, at least 1.
    pub max_tokens: TokenCount,
    /// An absent end-to-end budget takes the configured default.
    pub budget: Budget,
    /// How long the caller waits for a verdict; absent takes the configured default, zero is at once.
    pub patience: Option<Span>,
    /// Whether it may be served without a promise where promises are made.
    pub accept_best_effort: bool,
    /// Who asks.
    pub tenant: Arc<str>,
    /// Higher is more urgent; 0 is ordinary.
    pub priority: i32,
    /// When it was made, by the calendar: since 1970. Only its trace tells; nothing is decided by it.
    pub unix: Micros,
}

/// A place where a request could run.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// Whose state decides.
    pub source: Source,
    /// Tokens of the prompt that this place has cached, at most the prompt.
    pub cached: TokenCount,
    /// How long answers were there to prompts that begin alike, the shortest first; empty if it does not
    /// say.
    pub answers: Vec<AnswerBucket>,
}

/// Where the state of a candidate comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// A watched engine, by the instance it calls itself.
    Watched(Arc<str>),
    /// The caller itself, for engines that nobody watches.
    Passed(Box<Snapshot>),
}

impl Budget {
    /// What is left after `passed`.
    #[must_use]
    pub fn after(self, passed: Span) -> Self {
        let left = |span: Option<Span>| span.map(|span| span.saturating_sub(passed));
        Self { e2e: left(self.e2e), ttft: left(self.ttft) }
    }

    /// Whether nothing is left of a member.
    #[must_use]
    pub fn has_run_out(self) -> bool {
        self.e2e == Some(Span::ZERO) || self.ttft == Some(Span::ZERO)
    }
}
