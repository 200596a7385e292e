//! What came of a run.

use admit::Tier;
use units::{Micros, Span};

use crate::{Digest, Finding};

/// What came of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// One for each request, by number.
    pub requests: Vec<Request>,
    /// What the auditor found.
    pub findings: Vec<Finding>,
    /// Identifies the run.
    pub digest: Digest,
    /// When the last thing happened.
    pub ended_at: Micros,
    /// Steps of all engines.
    pub steps: u64,
    /// Events of all processes.
    pub events: u64,
}

/// A request as its client saw it. Times count from the start of the run.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// When it had to arrive.
    pub intended: Micros,
    /// When its last attempt was sent.
    pub sent: Micros,
    /// Attempts of the client.
    pub attempts: u32,
    /// The last status, if there was one.
    pub status: Option<u16>,
    /// When the head of the answer came.
    pub head: Option<Micros>,
    /// When the first token came.
    pub first_token: Option<Micros>,
    /// When the last token came.
    pub last_token: Option<Micros>,
    /// Microseconds between tokens.
    pub gaps: Vec<u32>,
    /// When it was over.
    pub end: Micros,
    /// How it ended.
    pub ending: Ending,
    /// Why, where it was not well.
    pub detail: Option<String>,
    /// Tokens of its prompt.
    pub prompt_tokens: u32,
    /// Those of them that other prompts of the workload begin with too.
    pub shared_tokens: u32,
    /// Cap on its answer.
    pub max_tokens: u32,
    /// Tokens that came.
    pub tokens: u32,
    /// As the engine counted, where it told.
    pub usage: Option<sched::Usage>,
    /// Why the answer ended: the word of the API.
    pub finish_reason: Option<&'static str>,
    /// What it was promised.
    pub tier: Option<Tier>,
    /// The promised bound.
    pub bound: Option<Span>,
    /// Its confidence.
    pub confidence: Option<f64>,
    /// When it was told to come back.
    pub retry_after: Option<Span>,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// A whole answer.
    Ok,
    /// Refused for load.
    Shed,
    /// Another status than 200.
    HttpStatus,
    /// An error after 200.
    InBandError,
    /// The client gave up.
    Timeout,
    /// The client left early, as the scenario says.
    Left,
}

impl Request {
    /// From the intended arrival to the last token, or to the end of an answer without any.
    #[must_use]
    pub fn e2e(&self) -> Span {
        self.last_token.unwrap_or(self.end).since(self.intended)
    }

    /// Whether it was answered in whole within `budget`.
    #[must_use]
    pub fn met(&self, budget: Span) -> bool {
        self.ending == Ending::Ok && self.e2e() <= budget
    }
}
