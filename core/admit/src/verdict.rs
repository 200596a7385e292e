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
    /// Its bound does not fit its budget, or its coming would break a promise.
    #[error("done by {bound} at the latest, and {budget} are left: {dominant}")]
    Late {
        /// By when it would surely be done, from now.
        bound: Span,
        /// What is left of its budget.
        budget: Span,
        /// What most of that is.
        dominant: Dominant,
    },
    /// Even an idle engine could not do it in time.
    #[error("done by {bound} at the latest even in an idle engine, and {budget} are left")]
    Hopeless {
        /// By when it would surely be done there, from now.
        bound: Span,
        /// What is left of its budget.
        budget: Span,
    },
    /// The engine cannot be foreseen.
    #[error("nothing can be promised: {}", if *.stale {
        "the engine's last state is too old, or its steps take far longer than foreseen"
    } else {
        "the engine plans by rules that are not known here"
    })]
    Blind {
        /// The state is too old, or does not fit what the engine does.
        stale: bool,
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

/// What most of a bound is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dominant {
    /// Those ahead of it.
    Queue,
    /// Its own prompt.
    Prefill,
    /// Its own answer, and those beside it.
    Decode,
    /// It would be in time, and make others late who were promised.
    Promises,
    /// It would be in time, and asks for more machine time than there is for one.
    Price,
}

impl fmt::Display for Dominant {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Queue => "most of it is waiting for others",
            Self::Prefill => "most of it is the prompt",
            Self::Decode => "most of it is the answer",
            Self::Promises => "it would make promises late",
            Self::Price => "it asks for too much time while many ask",
        })
    }
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
            Self::OutOfTime | Self::Late { .. } | Self::Hopeless { .. } | Self::Blind { .. } => {
                Reason::Slo
            }
            Self::EngineDraining | Self::Draining => Reason::Draining,
            Self::Context { .. } | Self::TooLarge { .. } => Reason::Never,
        }
    }

    /// Whether no wait can help.
    #[must_use]
    pub fn is_permanent(&self) -> bool {
        match self {
            Self::OutOfTime
            | Self::Hopeless { .. }
            | Self::Context { .. }
            | Self::TooLarge { .. } => true,
            Self::Requests { .. }
            | Self::Tokens { .. }
            | Self::Kv { .. }
            | Self::NoEngine
            | Self::EngineDraining
            | Self::Draining
            | Self::Queued { .. }
            | Self::Late { .. }
            | Self::Blind { .. }
            | Self::Unobserved { .. } => false,
        }
    }

    /// The bound that does not fit, from the decision on.
    #[must_use]
    pub fn bound(&self) -> Option<Span> {
        match self {
            Self::Late { bound, .. } | Self::Hopeless { bound, .. } => Some(*bound),
            Self::Requests { .. }
            | Self::Tokens { .. }
            | Self::Kv { .. }
            | Self::NoEngine
            | Self::OutOfTime
            | Self::EngineDraining
            | Self::Draining
            | Self::Context { .. }
            | Self::TooLarge { .. }
            | Self::Queued { .. }
            | Self::Blind { .. }
            | Self::Unobserved { .. } => None,
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
