//! A request of a run.

use serde::{Deserialize, Serialize};
use units::Span;
use workload::{Observed, Slo, Verdict};

use crate::wire::Class;

/// Everything that is known of a request. Times are microseconds since the run began.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Row {
    /// Its number in the schedule.
    pub(crate) index: u64,
    /// Whether it arrived before what is measured begins.
    pub(crate) warmup: bool,
    /// When it had to arrive.
    pub(crate) intended_us: u64,
    /// When this program turned to it: the difference is the slip.
    pub(crate) started_us: u64,
    /// When its last attempt was sent.
    pub(crate) sent_us: Option<u64>,
    /// When the head of the answer came.
    pub(crate) head_us: Option<u64>,
    /// When the first content came.
    pub(crate) first_token_us: Option<u64>,
    /// When the last content came.
    pub(crate) last_token_us: Option<u64>,
    /// When it was over.
    pub(crate) end_us: u64,
    /// How often it was tried.
    pub(crate) attempts: u32,
    /// The last status.
    pub(crate) status: Option<u16>,
    /// How it ended.
    pub(crate) class: Class,
    /// Why, where it was not well.
    pub(crate) detail: Option<String>,
    /// Tokens that the prompt was meant to have.
    pub(crate) asked_prompt_tokens: u32,
    /// Those of them that other prompts of the workload begin with too.
    #[serde(default)]
    pub(crate) asked_shared_tokens: u32,
    /// Cap on the answer.
    pub(crate) max_tokens: u32,
    /// Tokens that the server counted in the prompt.
    pub(crate) prompt_tokens: Option<u32>,
    /// Tokens that the server counted in the answer.
    pub(crate) completion_tokens: Option<u32>,
    /// Prompt tokens that it had cached.
    pub(crate) cached_tokens: Option<u32>,
    /// Events with content.
    pub(crate) chunks: u32,
    /// Why the answer ended.
    pub(crate) finish_reason: Option<String>,
    /// What the server promised: `x-slo-tier`.
    pub(crate) tier: Option<String>,
    /// `x-slo-bound-ms`.
    pub(crate) bound_ms: Option<f64>,
    /// `x-slo-confidence`.
    pub(crate) confidence: Option<f64>,
    /// When it said to come back: `retry-after-ms`, or `retry-after`.
    pub(crate) retry_after_ms: Option<f64>,
    /// Microseconds between contents.
    pub(crate) gaps_us: Vec<u32>,
}

impl Row {
    /// How late this program was.
    pub(crate) fn slip(&self) -> Span {
        Span(self.started_us.saturating_sub(self.intended_us))
    }

    /// From the intended arrival to the last token, or to the end of an answer without any.
    pub(crate) fn e2e(&self) -> Span {
        Span(self.last_token_us.unwrap_or(self.end_us).saturating_sub(self.intended_us))
    }

    /// From the intended arrival to the first token.
    pub(crate) fn ttft(&self) -> Option<Span> {
        self.first_token_us.map(|at| Span(at.saturating_sub(self.intended_us)))
    }

    /// `span`, counted from sending.
    pub(crate) fn since_send(&self, span: Span) -> Span {
        let waited = self.sent_us.unwrap_or(self.started_us).saturating_sub(self.intended_us);
        span.saturating_sub(Span(waited))
    }

    /// Tokens of the answer: as the server counts, or else events.
    pub(crate) fn tokens(&self) -> u32 {
        self.completion_tokens.unwrap_or(self.chunks)
    }

    /// The mean time of a token after the first.
    pub(crate) fn tpot(&self) -> Option<Span> {
        let spread = self.last_token_us?.saturating_sub(self.first_token_us?);
        let after_first = u64::from(self.tokens().checked_sub(1).filter(|left| *left > 0)?);
        Some(Span(spread / after_first))
    }

    /// Whether it was in time: absent where it failed, which is never in time.
    pub(crate) fn judge(&self, slo: &Slo) -> Option<Verdict> {
        let observed = Observed {
            e2e: self.e2e(),
            ttft: self.ttft(),
            itl_max: self.gaps_us.iter().max().map(|gap| Span((*gap).into())),
            tpot: self.tpot(),
            new_prompt_tokens: self.asked_prompt_tokens.saturating_sub(self.asked_shared_tokens),
            tokens: self.tokens(),
        };
        (self.class == Class::Ok).then(|| slo.judge(&observed))
    }
}
