//! One request inside the scheduler.

use std::sync::Arc;

use sample::Sampling;
use units::{BlockCount, Micros, RequestId, Slot, Span, Token, TokenCount};

use crate::{FinishReason, Submission, Tier, Timings, Usage};

/// Where a request is in its life.
///
/// ```text
/// Waiting -> Prefill -> Decode -> (gone)
///    ^----------+---------+  evicted: recomputed later, sampled tokens are kept
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// In the queue, without a slot.
    Waiting,
    /// Its prompt is being computed. Never in the decode set.
    Prefill,
    /// It samples one token a step.
    Decode,
}

/// The planning order, of all requests in the system: promised before best effort, then the earliest
/// deadline, then arrival. An evicted request keeps its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PlanKey {
    /// What was promised.
    pub tier: Tier,
    /// When it should be done; the end of time without a budget.
    pub deadline: Micros,
    /// A number that grows with every arrival.
    pub arrival: u64,
}

/// A request, waiting or running.
#[derive(Debug)]
pub(crate) struct Sequence {
    pub(crate) id: RequestId,
    pub(crate) tier: Tier,
    pub(crate) epoch: Option<u64>,
    pub(crate) sampling: Sampling,
    pub(crate) top_logprobs: Option<u32>,
    pub(crate) max_tokens: u32,
    pub(crate) deadline: Option<Micros>,
    pub(crate) first_token_budget: Option<Span>,
    evicted: bool,
    arrival: u64,
    /// What prefill computes: the prompt, and after an eviction what was sampled before it.
    pub(crate) history: Arc<[Token]>,
    prompt_tokens: u32,
    /// Sampled since the sequence has its slot.
    tail: Vec<Token>,
    /// Sampled altogether.
    pub(crate) sampled: u32,
    /// Tokens whose KV exists.
    pub(crate) computed: u32,
    pub(crate) seat: Option<Seat>,
    submitted_at: Micros,
    started: Option<Span>,
    first_token: Option<Span>,
}

/// What a running sequence holds.
#[derive(Debug)]
pub(crate) struct Seat {
    pub(crate) slot: Slot,
    pub(crate) lease: kv::Lease,
}

impl Sequence {
    pub(crate) fn new(arrival: u64, submission: Submission) -> Self {
        let Submission { id, prompt, sampling, max_tokens, tier, epoch, deadline, .. } = submission;
        let prompt_tokens = u32::try_from(prompt.len()).expect("a prompt fits the context");
        Self {
            id,
            tier,
            epoch,
            sampling,
            top_logprobs: submission.top_logprobs,
            max_tokens,
            deadline,
            first_token_budget: submission.first_token,
            evicted: false,
            arrival,
            history: prompt,
            prompt_tokens,
            tail: Vec::new(),
            sampled: 0,
            computed: 0,
            seat: None,
            submitted_at: submission.submitted_at,
            started: None,
            first_token: None,
        }
    }

    pub(crate) fn key(&self) -> PlanKey {
        PlanKey {
            tier: self.tier,
            deadline: self.deadline.unwrap_or(Micros(u64::MAX)),
            arrival: self.arrival,
        }
    }

    pub(crate) fn phase(&self) -> Phase {
        match (&self.seat, self.prefill_left()) {
            (None, _) => Phase::Waiting,
            (Some(_), 0) => Phase::Decode,
            (Some(_), _) => Phase::Prefill,
        }
    }

    /// Prompt tokens whose KV does not exist yet.
    pub(crate) fn prefill_left(&self) -> u32 {
        self.history_tokens().saturating_sub(self.computed)
    }

    fn history_tokens(&self) -> u32 {
        u32::try_from(self.history.len()).expect("a history fits the context")
    }

    /// Blocks that hold all it can ever need.
    pub(crate) fn blocks(&self) -> BlockCount {
        TokenCount(self.prompt_tokens + self.max_tokens).blocks()
    }

    /// The token whose KV the next decode computes.
    pub(crate) fn last(&self) -> Token {
        *self.tail.last().expect("a decoding sequence has sampled a token")
    }

    pub(crate) fn start(&mut self, now: Micros, seat: Seat) {
        self.seat = Some(seat);
        self.started.get_or_insert(now.since(self.submitted_at));
    }

    /// Takes a sampled token. Says whether it is the first.
    pub(crate) fn take(&mut self, now: Micros, token: Token) -> bool {
        self.tail.push(token);
        self.sampled += 1;
        let first = self.first_token.is_none();
        self.first_token.get_or_insert(now.since(self.submitted_at));
        first
    }

    /// Goes back to the queue without its seat: its KV will be computed again.
    pub(crate) fn evict(&mut self) -> Option<Seat> {
        if !self.tail.is_empty() {
            self.history = self.history.iter().chain(&self.tail).copied().collect();
            self.tail.clear();
        }
        self.computed = 0;
        self.evicted = true;
        self.seat.take()
    }

    /// Why it ends when its deadline passes in the queue.
    pub(crate) fn lateness(&self) -> FinishReason {
        if self.evicted { FinishReason::Evicted } else { FinishReason::Deadline }
    }

    pub(crate) fn usage(&self) -> Usage {
        Usage {
            prompt_tokens: self.prompt_tokens,
            completion_tokens: self.sampled,
            cached_tokens: 0,
        }
    }

    pub(crate) fn timings(&self, now: Micros) -> Timings {
        Timings {
            started: self.started,
            first_token: self.first_token,
            finished: now.since(self.submitted_at),
        }
    }

    pub(crate) fn age(&self, now: Micros) -> Span {
        now.since(self.submitted_at)
    }
}
