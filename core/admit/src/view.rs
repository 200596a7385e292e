//! What an operator sees.

use std::sync::Arc;

use units::Span;

use crate::{EngineId, Honesty, Speed, Totals};

/// Counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Verdicts that let a request in.
    pub admitted: u64,
    /// Verdicts that did not.
    pub refused: u64,
    /// Calls answered that another call speaks for the request.
    pub superseded: u64,
    /// Callers who left before their verdict, or before they used it.
    pub withdrawn: u64,
    /// Leases whose request was never submitted.
    pub leases_expired: u64,
    /// Requests let in and never heard of again; expired leases count here too.
    pub censored: u64,
    /// Requests let in whose end is known.
    pub finished: u64,
}

/// One watched engine.
#[derive(Clone, Debug, PartialEq)]
pub struct EngineStatus {
    /// Which.
    pub engine: EngineId,
    /// What it calls itself.
    pub instance: Arc<str>,
    /// The epoch it granted.
    pub epoch: u64,
    /// False while the connection is interrupted.
    pub connected: bool,
    /// Age of its last snapshot.
    pub snapshot_age: Option<Span>,
    /// What is in its system.
    pub totals: Totals,
    /// Tokens a second.
    pub rate: f64,
    /// What was learnt of its speed; absent until a twin looked at it.
    pub speed: Option<Speed>,
    /// Answers that the law of lengths rests on; old ones fade.
    pub answers: f64,
    /// How much predictions on caps are widened, and those over scenarios beside their residuals:
    /// logarithms.
    pub margin: f64,
    /// See above.
    pub shift: f64,
    /// The cost in microseconds from which on requests are too dear, if any is.
    pub price_us: Option<f64>,
    /// The limit of the policy `adaptive`.
    pub adaptive: u64,
}

/// The controller at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    /// The watched engines that are attached.
    pub engines: Vec<EngineStatus>,
    /// Leases of all engines.
    pub leases: u64,
    /// Requests that wait for their verdict.
    pub held: usize,
    /// Open entries of callers without an engine.
    pub standalone: usize,
    /// Counts since the start.
    pub counters: Counters,
    /// Whether nothing more is accepted.
    pub draining: bool,
    /// Whether promises are kept.
    pub honesty: Honesty,
}

impl View {
    /// What is in the systems of all watched engines together.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.engines.iter().map(|engine| engine.totals).sum()
    }
}
