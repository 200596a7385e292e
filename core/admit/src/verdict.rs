//! What a caller hears.

use std::fmt;

use units::{RequestId, Span};

use crate::{Budget, Tier};

/// The answer to an offer.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Go.
    Admitted(Admitted),
    /// Do not.
    Refused(Refused),
    /// Another call speaks for this request: one with a higher attempt, or the same one sent twice.
    Superseded {
        /// The attempt that counts.
        by: u32,
    },
}

/// How a request may go ahead.
#[derive(Clone, Debug, PartialEq)]
pub struct Admitted {
    /// What is promised.
    pub tier: Tier,
    /// Index into the offer's candidates.
    pub candidate: u32,
    /// The engine's epoch; 0 when nobody watches the engine.
    pub epoch: u64,
    /// The request has to be submitted within this time.
    pub lease: Span,
    /// What remains of the budget, defaults filled in.
    pub budget: Budget,
    /// The promised bound. Only with [`Tier::Promised`].
    pub bound: Option<Span>,
    /// The confidence of the bound.
    pub confidence: Option<f64>,
    /// Best-effort requests to evict with the submission.
    pub evict: Vec<RequestId>,
    /// How long the request was held.
    pub held: Span,
}

/// Why a request may not go ahead, and when to come back.
#[derive(Clone, Debug, PartialEq)]
pub struct Refused {
    /// What is missing; its text is for people.
    pub cause: Cause,
    /// When it is worth trying again, jittered: 1 s to 59 s.
    pub retry_after: Span,
    /// No wait can help.
    pub permanent: bool,
    /// The budget in force when the offer was made.
    pub budget: Budget,
    /// The largest cap on generated tokens that would be admitted now.
    pub max_tokens_that_fit: Option<u32>,
    /// How long the request was held.
    pub held: Span,
}

/// Kinds of refusal, for counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// Too many requests in the system.
    Requests,
    /// Too many tokens in the system.
    Tokens,
    /// Too little KV cache.
    Kv,
    /// No watched engine among the candidates.
    NoEngine,
    /// No bound fits the budget.
    Slo,
    /// The engine or the service is draining.
    Draining,
    /// It can never be admitted.
    Never,
}

/// What is missing, with the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Cause {
    /// As many requests as may be.
    #[error(
        "no room for another request: {in_system} in the system or ahead, the limit is {limit}"
    )]
    Requests {
        /// Leased, waiting and running ones, and those ahead in the queue.
        in_system: u64,
        /// How many may be.
        limit: u64,
    },
    /// As many tokens as may be.
    #[error(
        "no room for {needed} tokens: {in_system} in the system or ahead, the limit is {limit}"
    )]
    Tokens {
        /// Prompt and cap of the request.
        needed: u64,
        /// Prompts and caps of everything in the system or ahead in the queue.
        in_system: u64,
        /// How many may be.
        limit: u64,
    },
    /// As many KV blocks as may be.
    #[error("no room for {needed} KV blocks: {room} can be had")]
    Kv {
        /// What the request needs in the worst case, less what is cached.
        needed: u64,
        /// What the others leave.
        room: u64,
    },
    /// None of the candidates is connected.
    #[error("none of the named engines is connected")]
    NoEngine,
    /// The budget has run out.
    #[error("nothing is left of the time budget")]
    OutOfTime,
    /// The candidates accept nothing more.
    #[error("the engine is draining")]
    EngineDraining,
    /// This service accepts nothing more.
    #[error("admission is draining")]
    Draining,
    /// Prompt and cap exceed the engine's context.
    #[error("{needed} tokens are needed, the context holds {context}")]
    Context {
        /// Prompt and cap of the request.
        needed: u64,
        /// What one request may have.
        context: u64,
    },
    /// More KV blocks than the engine has.
    #[error("{needed} KV blocks are needed, the engine has {total}")]
    TooLarge {
        /// What the request needs in the worst case.
        needed: u64,
        /// All of them.
        total: u64,
    },
    /// It would fit, but others come first.
    #[error("others come first: {ahead} ahead in the queue")]
    Queued {
        /// How many.
        ahead: u64,
    },
    /// Too many open entries of callers without an engine.
    #[error("too many outcomes were not reported: {open} are open, the limit is {limit}")]
    Unobserved {
        /// How many there are.
        open: u64,
        /// How many may be.
        limit: u64,
    },
}

impl Cause {
    /// The kind of refusal.
    #[must_use]
    pub fn reason(&self) -> Reason {
        match self {
            Self::Requests { .. } | Self::Queued { .. } | Self::Unobserved { .. } => {
                Reason::Requests
            }
            Self::Tokens { .. } => Reason::Tokens,
            Self::Kv { .. } => Reason::Kv,
            Self::NoEngine => Reason::NoEngine,
            Self::OutOfTime => Reason::Slo,
            Self::EngineDraining | Self::Draining => Reason::Draining,
            Self::Context { .. } | Self::TooLarge { .. } => Reason::Never,
        }
    }

    /// Whether no wait can help.
    #[must_use]
    pub fn is_permanent(&self) -> bool {
        match self.reason() {
            Reason::Slo | Reason::Never => true,
            Reason::Requests
            | Reason::Tokens
            | Reason::Kv
            | Reason::NoEngine
            | Reason::Draining => false,
        }
    }
}

impl Reason {
    /// Its name, as a metric label.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Tokens => "tokens",
            Self::Kv => "kv",
            Self::NoEngine => "no_engine",
            Self::Slo => "slo",
            Self::Draining => "draining",
            Self::Never => "never",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}
