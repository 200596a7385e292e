//! What remains of a decision once its outcome is known: the rows that later fits learn from.

use std::sync::Arc;

use units::{Micros, RequestId, Span, TokenCount};

use crate::{
    Attempt, Budget, EngineView, How, KvUsage, Offer, Phase, Reason, Snapshot, StepCost, Tier,
    Totals, entry::Size, held::Held,
};

/// One closed decision.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// Which try of which request.
    pub attempt: Attempt,
    /// When it was offered, on the controller's clock.
    pub offered_at: Micros,
    /// The same by the calendar: since 1970, as the offer said.
    pub offered_unix: Micros,
    /// What the controller saw.
    pub saw: Saw,
    /// What it answered; absent when the caller left before the answer.
    pub verdict: Option<TracedVerdict>,
    /// How long the request was held.
    pub held: Span,
    /// How far it came.
    pub way: Way,
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
    /// How long the caller would wait for a verdict.
    pub patience: Span,
    /// Whether it would do without a promise.
    pub accept_best_effort: bool,
    /// Who asked.
    pub tenant: Arc<str>,
    /// How urgent it was.
    pub priority: i32,
    /// Between how many engines there was a choice.
    pub candidates: u32,
    /// What was in the engine's system.
    pub in_system: Totals,
    /// The engine's own account; absent when there was none to go by.
    pub engine: Option<SeenEngine>,
}

/// An engine's published state, in the numbers that a fit can use.
#[derive(Clone, Debug, PartialEq)]
pub struct SeenEngine {
    /// Requests that had a slot.
    pub running: u32,
    /// Those that waited for one.
    pub waiting: u32,
    /// Running ones that were being answered; the others were in their prompts.
    pub decoding: u32,
    /// Requests, running or waiting, that had a promise.
    pub promised: u32,
    /// Prompt tokens still to be computed, of running and waiting requests.
    pub prefill_left: u64,
    /// Sequences that can run at once.
    pub slots: u32,
    /// All KV blocks.
    pub kv_total: u32,
    /// The KV cache.
    pub kv: KvUsage,
    /// KV blocks that a newcomer could have had, ends told since the snapshot included.
    pub room: u64,
    /// Tokens a second, smoothed.
    pub rate: f64,
    /// The engine's model of its own speed.
    pub cost: StepCost,
    /// Number of the last step.
    pub step: u64,
    /// How old the state was.
    pub age: Span,
    /// Identifies the planning rules.
    pub planner: Arc<str>,
}

/// How far a request came, as the engine's records told when they were read. Spans count from the
/// offer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Way {
    /// Until its engine had it.
    pub submitted: Option<Span>,
    /// Until it got a slot.
    pub started: Option<Span>,
    /// Until its first token.
    pub first_token: Option<Span>,
    /// Prompt tokens that were found in the cache when it got its slot.
    pub cached: Option<TokenCount>,
    /// What it really ran as.
    pub ran_as: Option<Tier>,
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
    pub(crate) offered_unix: Micros,
    pub(crate) saw: Saw,
    pub(crate) verdict: TracedVerdict,
    pub(crate) held: Span,
    pub(crate) way: Way,
}

impl Decided {
    pub(crate) fn close(self, id: RequestId, outcome: Outcome) -> Trace {
        Trace {
            attempt: Attempt { id, number: self.attempt },
            offered_at: self.offered_at,
            offered_unix: self.offered_unix,
            saw: self.saw,
            verdict: Some(self.verdict),
            held: self.held,
            way: self.way,
            outcome,
        }
    }
}

impl Saw {
    /// What is known of a request by itself, wherever it might have run.
    pub(crate) fn of(held: &Held) -> Self {
        let Offer { prompt, max_tokens, accept_best_effort, priority, .. } = held.offer;
        Self {
            instance: Arc::from(""),
            prompt,
            cached: TokenCount(0),
            max_tokens,
            budget: held.budget,
            patience: held.patience,
            accept_best_effort,
            tenant: Arc::clone(&held.offer.tenant),
            priority,
            candidates: u32::try_from(held.offer.candidates.len()).unwrap_or(u32::MAX),
            in_system: Totals::default(),
            engine: None,
        }
    }

    /// The same with the engine that was decided about.
    pub(crate) fn at(self, instance: Arc<str>, size: Size) -> Self {
        Self { instance, cached: size.cached, ..self }
    }
}

impl SeenEngine {
    /// Sums up what a policy saw.
    pub(crate) fn of(now: Micros, view: &EngineView<'_>) -> Self {
        let Snapshot { limits, kv, cost, step, taken_at, ref planner, ref sequences, .. } =
            *view.snapshot;
        let count = |phase| {
            let there = sequences.iter().filter(|sequence| sequence.phase == phase).count();
            u32::try_from(there).unwrap_or(u32::MAX)
        };
        let decoding = count(Phase::Decode);
        let promised = sequences.iter().filter(|sequence| sequence.tier == Tier::Promised).count();
        let left = sequences.iter().map(|it| u64::from(it.prompt.saturating_sub(it.computed).0));
        Self {
            running: decoding.saturating_add(count(Phase::Prefill)),
            waiting: count(Phase::Waiting),
            decoding,
            promised: u32::try_from(promised).unwrap_or(u32::MAX),
            prefill_left: left.sum(),
            slots: limits.slots,
            kv_total: limits.kv.0,
            kv,
            room: view.room,
            rate: view.rate,
            cost,
            step,
            age: now.since(taken_at),
            planner: Arc::clone(planner),
        }
    }
}
