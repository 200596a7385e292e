//! One request inside the scheduler.

use std::sync::Arc;

use sample::Sampling;
use units::{BLOCK_TOKENS, BlockCount, Micros, RequestId, Slot, Span, Token, TokenCount};

use crate::{FinishReason, Limits, Reservation, Submission, Tier, Timings, Usage};

/// Where a request is in its life.
///
/// ```text
/// Waiting -> Prefill -> Decode -> (gone)
///    ^----------+---------+  preempted: recomputed later, sampled tokens are kept
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
/// deadline, then arrival. A preempted request keeps its place.
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
    /// Its place in the planning order.
    pub(crate) key: PlanKey,
    pub(crate) tier: Tier,
    pub(crate) epoch: Option<u64>,
    pub(crate) sampling: Sampling,
    pub(crate) top_logprobs: Option<u32>,
    pub(crate) max_tokens: u32,
    pub(crate) deadline: Option<Micros>,
    pub(crate) first_token_budget: Option<Span>,
    pub(crate) submitted_at: Micros,
    /// It lost its promise by being late, and may finish.
    demoted: bool,
    preemptions: u32,
    /// It was preempted lately, and may not join before.
    pub(crate) rests_until: Option<Micros>,
    /// What prefill computes: the prompt, and after a preemption what was sampled before it.
    pub(crate) history: Arc<[Token]>,
    prompt_tokens: u32,
    /// Sampled since the sequence has its slot.
    tail: Vec<Token>,
    /// Sampled altogether.
    pub(crate) sampled: u32,
    /// Tokens whose KV exists.
    pub(crate) computed: u32,
    pub(crate) seat: Option<Seat>,
    /// Of the prompt, found when it first had a slot.
    cached: u32,
    started: Option<Span>,
    first_token: Option<Span>,
}

/// What a running sequence holds.
#[derive(Debug)]
pub(crate) struct Seat {
    pub(crate) slot: Slot,
    pub(crate) lease: kv::Lease,
    /// Whole blocks of its tokens that the cache has or was offered.
    pub(crate) offered: u32,
}

impl Sequence {
    pub(crate) fn new(key: PlanKey, submission: Submission) -> Self {
        let Submission { id, prompt, sampling, max_tokens, tier, epoch, deadline, .. } = submission;
        Self {
            id,
            key,
            tier,
            epoch,
            sampling,
            top_logprobs: submission.top_logprobs,
            max_tokens,
            deadline,
            first_token_budget: submission.first_token,
            submitted_at: submission.submitted_at,
            demoted: false,
            preemptions: 0,
            rests_until: None,
            prompt_tokens: count(prompt.len()),
            history: prompt,
            tail: Vec::new(),
            sampled: 0,
            computed: 0,
            seat: None,
            cached: 0,
            started: None,
            first_token: None,
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
        count(self.history.len()).saturating_sub(self.computed)
    }

    /// Blocks that hold all it can ever need.
    pub(crate) fn blocks(&self, limits: &Limits) -> BlockCount {
        blocks_of(self.prompt_tokens, self.max_tokens, limits)
    }

    /// Blocks that it takes with a slot. Who was preempted once takes all, so as not to be preempted for
    /// the same reason again.
    pub(crate) fn joining_blocks(&self, limits: &Limits) -> BlockCount {
        let all = self.blocks(limits);
        let grows = limits.rules.reservation == Reservation::Grow
            && self.tier == Tier::BestEffort
            && self.preemptions == 0;
        let prompt = TokenCount(count(self.history.len())).blocks();
        if grows { all.min(prompt + BlockCount(1)) } else { all }
    }

    /// Blocks that it has to get before it can decode once more.
    pub(crate) fn grows(&self) -> BlockCount {
        let held = self.seat.as_ref().map_or(BlockCount(0), |seat| seat.lease.len());
        let needed = TokenCount(self.computed + 1).blocks();
        BlockCount(needed.0.saturating_sub(held.0))
    }

    /// The token whose KV the next decode computes.
    pub(crate) fn last(&self) -> Token {
        *self.tail.last().expect("a decoding sequence has sampled a token")
    }

    /// The tokens whose KV exists.
    pub(crate) fn computed_tokens(&self) -> Vec<Token> {
        self.history.iter().chain(&self.tail).take(self.computed as usize).copied().collect()
    }

    pub(crate) fn start(&mut self, now: Micros, seat: Seat) {
        self.computed = seat.lease.cached_tokens();
        if self.started.is_none() {
            self.started = Some(now.since(self.submitted_at));
            self.cached = self.computed;
        }
        self.seat = Some(seat);
    }

    /// Takes a sampled token. Says whether it is the first.
    pub(crate) fn take(&mut self, now: Micros, token: Token) -> bool {
        self.tail.push(token);
        self.sampled += 1;
        let first = self.first_token.is_none();
        self.first_token.get_or_insert(now.since(self.submitted_at));
        first
    }

    /// Loses its seat and becomes one that waits: its KV will be computed again. Says how often that has
    /// happened.
    pub(crate) fn preempt(&mut self) -> (Option<Seat>, u32) {
        if !self.tail.is_empty() {
            self.history = self.history.iter().chain(&self.tail).copied().collect();
            self.tail.clear();
        }
        self.computed = 0;
        self.preemptions += 1;
        (self.seat.take(), self.preemptions)
    }

    /// Late work that is neither protected nor ended.
    pub(crate) fn demote(&mut self) {
        self.tier = Tier::BestEffort;
        self.demoted = true;
    }

    /// Whether it ran past its deadline and nothing was done about it yet.
    pub(crate) fn is_late(&self, now: Micros) -> bool {
        !self.demoted && self.deadline.is_some_and(|deadline| deadline <= now)
    }

    /// Why it ends when its deadline passes in the queue.
    pub(crate) fn lateness(&self) -> FinishReason {
        if self.preemptions > 0 { FinishReason::Evicted } else { FinishReason::Deadline }
    }

    pub(crate) fn usage(&self) -> Usage {
        Usage {
            prompt_tokens: self.prompt_tokens,
            completion_tokens: self.sampled,
            cached_tokens: self.cached,
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

/// Blocks of a request: with a cap for all, it takes room for that cap, as far as a context can hold it.
pub(crate) fn blocks_of(prompt: u32, max_tokens: u32, limits: &Limits) -> BlockCount {
    let own = prompt.saturating_add(max_tokens);
    let slab = limits.rules.output_cap.map_or(own, |cap| prompt.saturating_add(cap));
    TokenCount(own.max(slab.min(limits.context_tokens))).blocks()
}

/// Whole blocks of `tokens` tokens.
pub(crate) fn whole_blocks(tokens: u32) -> u32 {
    tokens / BLOCK_TOKENS
}

pub(crate) fn count(len: usize) -> u32 {
    u32::try_from(len).expect("every collection here is bounded by the limits")
}
