//! Single requests, and several at once.

use std::{sync::Arc, time::Duration};

use anyhow::Context as _;
use units::{Micros, Span, TokenCount};
use workload::{Ask, Budgets, Content, Passage, Prompt, Style};

use crate::{clock::Clock, server::Server, wire::Trail};

/// A server and what is needed to ask it.
pub(crate) struct Prober {
    server: Arc<Server>,
    clock: Clock,
    timeout: Duration,
}

/// An answer and its times.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) ttft: Span,
    pub(crate) e2e: Span,
    pub(crate) prompt_tokens: u32,
    pub(crate) tokens: u32,
    /// When each content came.
    pub(crate) contents: Vec<Micros>,
}

impl Prober {
    pub(crate) fn new(server: Server, timeout_secs: u64) -> Self {
        Self {
            server: Arc::new(server),
            clock: Clock::starting_in(Duration::ZERO),
            timeout: Duration::from_secs(timeout_secs),
        }
    }

    /// Asks, waits for the end and says when what came.
    ///
    /// # Errors
    /// Anything but a whole answer with at least one token.
    pub(crate) async fn ask(&self, ask: &Ask, ignore_eos: bool) -> anyhow::Result<Sample> {
        let call = self.server.call(ask, ignore_eos);
        let mut trail = Trail::default();
        let performed = self.server.client.perform(&call, &self.clock, &mut trail);
        let ended = tokio::time::timeout(self.timeout, performed).await;
        ended.with_context(|| format!("no end after {:?}", self.timeout))??;
        let start = trail.sent.context("it was sent")?;
        let first = trail.first_token.context("an answer without a token: say --ignore-eos")?;
        let last = trail.last_token.unwrap_or(first);
        let mut at = first;
        let later = trail.gaps_us.iter().map(|gap| {
            at += Span(u64::from(*gap));
            at
        });
        Ok(Sample {
            ttft: first.since(start),
            e2e: last.since(start),
            prompt_tokens: trail.answer.prompt_tokens.unwrap_or(ask.prompt.tokens().0),
            tokens: trail.answer.completion_tokens.unwrap_or(trail.chunks),
            contents: std::iter::once(first).chain(later).collect(),
        })
    }

    /// Asks `asks` all at once.
    ///
    /// # Errors
    /// One of them fails.
    pub(crate) async fn ask_all(self: &Arc<Self>, asks: Vec<Ask>) -> anyhow::Result<Vec<Sample>> {
        let tasks: Vec<_> = asks
            .into_iter()
            .map(|ask| {
                let prober = Arc::clone(self);
                tokio::spawn(async move { prober.ask(&ask, true).await })
            })
            .collect();
        let mut samples = Vec::new();
        for task in tasks {
            samples.push(task.await??);
        }
        Ok(samples)
    }
}

/// A prompt that nobody asked before, of about so many tokens.
pub(crate) fn fresh(id: u64, tokens: u32, max_tokens: u32) -> Ask {
    let passage = Passage { id, style: Style::Instructions, tokens: TokenCount(tokens) };
    Ask {
        prompt: Prompt::user(Content::Made(vec![passage])),
        max_tokens: TokenCount(max_tokens),
        budgets: Budgets::default(),
    }
}
