//! The life of one request: attempts, until it is answered, given up, or its time is over.

use std::{sync::Arc, time::Duration};

use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use units::{Micros, Span};
use workload::{Budgets, Draws};

use super::{options::Retries, retry};
use crate::{
    clock::Clock,
    interrupt::Stop,
    record::Row,
    server::Server,
    wire::{Call, Class, Failure, Trail},
};

/// What all requests of a run share.
pub(super) struct Shared {
    pub(super) server: Server,
    pub(super) clock: Clock,
    pub(super) seed: u64,
    pub(super) warmup: Span,
    pub(super) timeout: Span,
    pub(super) retries: Retries,
    pub(super) ignore_eos: bool,
    /// When everything is given up that has no answer by then.
    pub(super) end: Option<Micros>,
    pub(super) stop: Stop,
}

/// A request that is ready to be sent.
pub(super) struct Prepared {
    pub(super) index: u64,
    pub(super) intended: Micros,
    pub(super) call: Call,
    pub(super) budgets: Budgets,
    pub(super) asked_prompt_tokens: u32,
    pub(super) asked_shared_tokens: u32,
}

/// Sends it and says what came of it.
pub(super) async fn perform(shared: Arc<Shared>, prepared: Prepared) -> Row {
    let started = shared.clock.now();
    let mut trail = Trail::default();
    let mut attempts = 0;
    let own = prepared.intended + shared.timeout;
    let deadline = shared.end.map_or(own, |end| end.min(own));
    let mut stop = shared.stop.clone();
    let outcome = tokio::select! {
        biased;
        () = stop.asked() => Err(Failure::new(Class::Interrupted, "the run was stopped")),
        outcome = tokio::time::timeout_at(
            shared.clock.instant(deadline).into(),
            attempt_all(&shared, &prepared, &mut trail, &mut attempts),
        ) => outcome.unwrap_or_else(|_| Err(timeout(deadline.since(prepared.intended)))),
    };
    let end = shared.clock.now();
    row(&shared, &prepared, Outcome { started, end, attempts, trail, outcome })
}

fn timeout(waited: Span) -> Failure {
    Failure::new(Class::Timeout, format!("no end after {} s", waited.as_secs_f64()))
}

async fn attempt_all(
    shared: &Shared,
    prepared: &Prepared,
    trail: &mut Trail,
    attempts: &mut u32,
) -> Result<(), Failure> {
    // Its own stream: waits must not depend on what other requests drew.
    let mut draws = Draws::new(!shared.seed, prepared.index);
    loop {
        *attempts += 1;
        *trail = Trail::default();
        let mut call = prepared.call.clone();
        let passed =
            if *attempts == 1 { Span::ZERO } else { shared.clock.now().since(prepared.intended) };
        budget_headers(&prepared.budgets, passed, &mut call.headers);
        let Err(failure) = shared.server.client.perform(&call, &shared.clock, trail).await else {
            return Ok(());
        };
        let (status, headers) = (trail.status, &trail.headers);
        match retry::wait(shared.retries, *attempts, &failure, status, headers, &mut draws) {
            Some(wait) => tokio::time::sleep(wait).await,
            None => return Err(failure),
        }
    }
}

/// Budgets are what is left: a retry has less.
fn budget_headers(budgets: &Budgets, passed: Span, headers: &mut HeaderMap) {
    let names = [
        (budgets.e2e, "x-slo-e2e-ms", passed),
        (budgets.ttft, "x-slo-ttft-ms", passed),
        (budgets.patience, "x-slo-patience-ms", Span::ZERO),
    ];
    for (budget, name, passed) in names {
        if let Some(budget) = budget {
            let millis = (budget.saturating_sub(passed).0 / 1_000).max(1);
            headers.insert(HeaderName::from_static(name), HeaderValue::from(millis));
        }
    }
}

struct Outcome {
    started: Micros,
    end: Micros,
    attempts: u32,
    trail: Trail,
    outcome: Result<(), Failure>,
}

fn row(shared: &Shared, prepared: &Prepared, seen: Outcome) -> Row {
    let Outcome { started, end, attempts, trail, outcome } = seen;
    let (class, detail) = match outcome {
        Ok(()) => (Class::Ok, None),
        Err(failure) => (failure.class, Some(failure.detail)),
    };
    let micros = |at: Option<Micros>| at.map(|at| at.0);
    Row {
        index: prepared.index,
        warmup: prepared.intended.0 < shared.warmup.0,
        intended_us: prepared.intended.0,
        started_us: started.0,
        sent_us: micros(trail.sent),
        head_us: micros(trail.head),
        first_token_us: micros(trail.first_token),
        last_token_us: micros(trail.last_token),
        end_us: end.0,
        attempts,
        status: trail.status,
        class,
        detail,
        asked_prompt_tokens: prepared.asked_prompt_tokens,
        asked_shared_tokens: prepared.asked_shared_tokens,
        max_tokens: prepared.call.max_tokens,
        prompt_tokens: trail.answer.prompt_tokens,
        completion_tokens: trail.answer.completion_tokens,
        cached_tokens: trail.answer.cached_tokens,
        chunks: trail.chunks,
        finish_reason: trail.answer.finish_reason,
        tier: text(&trail.headers, "x-slo-tier"),
        bound_ms: number(&trail.headers, "x-slo-bound-ms"),
        confidence: number(&trail.headers, "x-slo-confidence"),
        retry_after_ms: retry::wish_ms(&trail.headers),
        gaps_us: trail.gaps_us,
    }
}

/// A header's text, short.
fn text(headers: &HeaderMap, name: &str) -> Option<String> {
    let text = headers.get(name)?.to_str().ok()?;
    Some(text.chars().take(40).collect())
}

fn number(headers: &HeaderMap, name: &str) -> Option<f64> {
    text(headers, name)?.parse().ok().filter(|value: &f64| value.is_finite())
}

/// How long a runtime that is shut down may take.
pub(super) const SHUTDOWN: Duration = Duration::from_secs(1);
