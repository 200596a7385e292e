//! One request in the system.

use std::sync::Arc;

use units::{BlockCount, Micros, TokenCount};

use crate::{
    Cut, Ended, How, Load, Observation, Offer, Outcome, Sequence, Submitted, Tier, Way, Why,
    ledger::Totals, lengths::Law, trace::Decided,
};

/// How big a request is at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) prompt: TokenCount,
    pub(crate) cached: TokenCount,
    pub(crate) max_tokens: TokenCount,
}

/// A request that was let in, or that an engine says it has.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) size: Size,
    /// Prompt tokens that need no more work.
    pub(crate) computed: TokenCount,
    pub(crate) generated: TokenCount,
    /// KV blocks that it may come to hold.
    pub(crate) reserved: BlockCount,
    /// KV blocks that it held at the last snapshot.
    pub(crate) held: BlockCount,
    pub(crate) stage: Stage,
    /// What it runs as, or was let in as.
    pub(crate) tier: Tier,
    /// When it was let in or first heard of.
    pub(crate) entered_at: Micros,
    /// When it has to be done, as far as is known.
    pub(crate) deadline: Option<Micros>,
    /// When its first token has to be there, if that was promised.
    pub(crate) first_by: Option<Micros>,
    /// How long its answer may be; absent where nobody asks.
    pub(crate) law: Option<Arc<Law>>,
    /// Of a promise: when it was foreseen to end, later admissions included.
    pub(crate) foreseen: Option<Micros>,
    /// How full its engine was.
    pub(crate) load: Load,
    /// Absent for requests that this controller did not let in.
    pub(crate) decided: Option<Box<Decided>>,
}

/// Who speaks for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Nobody yet: its engine has until then to report it.
    Leased {
        /// When the lease ends.
        until: Micros,
    },
    /// Its engine.
    Running {
        /// The record or snapshot that told of it.
        record: u64,
        /// When that was.
        submitted_at: Micros,
    },
    /// Its caller, who is to report the outcome by then.
    Awaited {
        /// When it is given up.
        until: Micros,
    },
}

impl Size {
    pub(crate) fn of(offer: &Offer, candidate: usize) -> Self {
        Self {
            prompt: offer.prompt,
            cached: offer.candidates[candidate].cached.min(offer.prompt),
            max_tokens: offer.max_tokens,
        }
    }

    /// Prompt and cap.
    pub(crate) fn tokens(&self) -> u64 {
        u64::from(self.prompt.0) + u64::from(self.max_tokens.0)
    }

    /// KV blocks in the worst case, without those that the cache already has.
    pub(crate) fn blocks(&self) -> BlockCount {
        let fresh = self.tokens().saturating_sub(u64::from(self.cached.0));
        TokenCount(u32::try_from(fresh).unwrap_or(u32::MAX)).blocks()
    }
}

impl Entry {
    pub(crate) fn new(size: Size, stage: Stage) -> Self {
        Self {
            size,
            computed: size.cached,
            generated: TokenCount(0),
            reserved: size.blocks(),
            held: BlockCount(0),
            stage,
            tier: Tier::BestEffort,
            entered_at: Micros(0),
            deadline: None,
            first_by: None,
            law: None,
            foreseen: None,
            load: Load::Light,
            decided: None,
        }
    }

    /// As a snapshot shows it.
    pub(crate) fn of_sequence(sequence: &Sequence, record: u64) -> Self {
        let Sequence { prompt, max_tokens, submitted_at, .. } = *sequence;
        let size = Size { prompt, cached: TokenCount(0), max_tokens };
        let mut entry = Self::new(size, Stage::Running { record, submitted_at });
        entry.entered_at = submitted_at;
        entry.progress(sequence);
        entry
    }

    /// Takes over how far a snapshot says that the request is.
    pub(crate) fn progress(&mut self, sequence: &Sequence) {
        self.computed = sequence.computed;
        self.generated = sequence.generated;
        self.held = sequence.blocks;
        self.tier = sequence.tier;
        // What was promised counts from the decision, whatever the engine makes of it.
        let engine = sequence.deadline;
        self.deadline = match &self.decided {
            Some(_) => self.deadline.into_iter().chain(engine).min(),
            None => engine,
        };
    }

    /// A snapshot shows that the engine has it.
    pub(crate) fn found(&mut self, sequence: &Sequence, record: u64) {
        self.stage = Stage::Running { record, submitted_at: sequence.submitted_at };
        self.on_its_way(|way, offered_at| {
            way.submitted = Some(sequence.submitted_at.since(offered_at));
            way.ran_as = Some(sequence.tier);
        });
        self.progress(sequence);
    }

    /// The engine has it, and this is what the engine says it is.
    pub(crate) fn submitted(&mut self, record: u64, now: Micros, as_what: &Submitted) {
        self.size.prompt = as_what.prompt;
        self.size.max_tokens = as_what.max_tokens;
        self.tier = as_what.tier;
        self.reserved = if as_what.blocks.0 > 0 { as_what.blocks } else { self.size.blocks() };
        self.stage = Stage::Running { record, submitted_at: now };
        self.on_its_way(|way, offered_at| {
            way.submitted = Some(now.since(offered_at));
            way.ran_as = Some(as_what.tier);
        });
    }

    /// It has a slot, and this much of its prompt was cached.
    pub(crate) fn started(&mut self, cached: TokenCount, now: Micros) {
        self.computed = self.computed.max(cached);
        self.on_its_way(|way, offered_at| {
            way.started = Some(now.since(offered_at));
            way.cached = Some(cached);
        });
    }

    /// It has its first token.
    pub(crate) fn first_token(&mut self, now: Micros) {
        self.computed = self.computed.max(self.size.prompt);
        self.on_its_way(|way, offered_at| way.first_token = Some(now.since(offered_at)));
    }

    /// Notes how far it is. After an eviction it starts again: the last time counts.
    fn on_its_way(&mut self, note: impl FnOnce(&mut Way, Micros)) {
        if let Some(decided) = &mut self.decided {
            note(&mut decided.way, decided.offered_at);
        }
    }

    /// When somebody else has to have spoken for it.
    pub(crate) fn until(&self) -> Option<Micros> {
        match self.stage {
            Stage::Leased { until } | Stage::Awaited { until } => Some(until),
            Stage::Running { .. } => None,
        }
    }

    /// What it adds to the system.
    pub(crate) fn totals(&self) -> Totals {
        let prompt_left = self.size.prompt.saturating_sub(self.computed);
        let answer_left = self.size.max_tokens.saturating_sub(self.generated);
        Totals {
            requests: 1,
            leases: u64::from(matches!(self.stage, Stage::Leased { .. })),
            tokens: self.size.tokens(),
            blocks: u64::from(self.reserved.0),
            growth: u64::from(self.reserved.0.saturating_sub(self.held.0)),
            work: u64::from(prompt_left.0) + u64::from(answer_left.0),
        }
    }

    /// How it ended, counted from its offer.
    pub(crate) fn observation(&self, ended: &Ended, now: Micros) -> Observation {
        let offered_at = self.decided.as_ref().map_or(now, |decided| decided.offered_at);
        let before = match self.stage {
            Stage::Running { submitted_at, .. } => submitted_at.since(offered_at),
            Stage::Leased { .. } | Stage::Awaited { .. } => now.since(offered_at),
        };
        Observation {
            how: ended.how,
            ttft: ended.ttft.map(|ttft| before + ttft),
            e2e: before + ended.e2e,
            completion: ended.completion,
        }
    }

    /// Nothing more will be heard of it.
    pub(crate) fn cut(&self, why: Why, now: Micros) -> Outcome {
        let offered_at = self.decided.as_ref().map_or(now, |decided| decided.offered_at);
        let first = self.decided.as_ref().is_some_and(|decided| decided.way.first_token.is_some());
        let generated = self.generated.max(TokenCount(u32::from(first)));
        Outcome::Censored(Cut { why, after: now.since(offered_at), generated })
    }

    /// An end that nobody reported: the caller left, or tried again.
    pub(crate) fn broken_off(&self, how: How, now: Micros) -> Observation {
        let offered_at = self.decided.as_ref().map_or(now, |decided| decided.offered_at);
        Observation { how, ttft: None, e2e: now.since(offered_at), completion: TokenCount(0) }
    }
}
