//! A simulated run as a measured one: the same rows, the same provenance.

use sim::{Ending, Report, Request};
use units::{Micros, Span};

use crate::{
    record::{End, Machine, Provenance, Row, Run, Worst},
    wire::Class,
};

/// What is known of a simulated run beside its report.
#[derive(Clone, Debug)]
pub(crate) struct About {
    /// What stands for the address of a server.
    pub(crate) place: String,
    /// What stands for its model.
    pub(crate) model: String,
    pub(crate) command: Vec<String>,
    pub(crate) arrivals: String,
    pub(crate) workload: String,
    pub(crate) rate: Option<f64>,
    pub(crate) seed: u64,
    pub(crate) duration: Span,
    pub(crate) warmup: Span,
    pub(crate) timeout: Span,
    pub(crate) slo: String,
    pub(crate) retries: &'static str,
    pub(crate) ks: Option<(f64, f64)>,
}

/// A run of the rows of `report`. It says nothing of when and where it was simulated, so that the same run
/// makes the same file.
pub(crate) fn measured(report: &Report, about: About) -> Run {
    let warmup = about.warmup;
    let rows = report.requests.iter().enumerate();
    let rows: Vec<Row> = rows.map(|(index, it)| row(index as u64, it, warmup)).collect();
    let nowhere =
        Machine { os: "simulated".into(), arch: "simulated".into(), cpus: 0, cpu_model: None };
    let provenance = Provenance {
        version: env!("CARGO_PKG_VERSION").into(),
        command: about.command,
        url: about.place,
        api: "chat".into(),
        model: about.model,
        arrivals: about.arrivals,
        workload: about.workload,
        rate: about.rate,
        seed: about.seed,
        duration_us: about.duration.0,
        warmup_us: about.warmup.0,
        timeout_us: about.timeout.0,
        drain_us: None,
        slo: about.slo,
        retries: about.retries.into(),
        scheduled: rows.len() as u64,
        ks: about.ks,
        started_unix_us: 0,
        machine: nowhere,
        cell: None,
        end: Some(End { complete: true, wall_us: report.ended_at.0, worst: Worst::default() }),
    };
    Run { provenance, rows }
}

fn row(index: u64, request: &Request, warmup: Span) -> Row {
    let micros = |at: Option<Micros>| at.map(|at| at.0);
    let millis = |span: Option<Span>| span.map(|span| span.as_secs_f64() * 1e3);
    Row {
        index,
        warmup: request.intended.0 < warmup.0,
        intended_us: request.intended.0,
        started_us: request.intended.0,
        sent_us: Some(request.sent.0),
        head_us: micros(request.head),
        first_token_us: micros(request.first_token),
        last_token_us: micros(request.last_token),
        end_us: request.end.0,
        attempts: request.attempts,
        status: request.status,
        class: class(request.ending),
        detail: request.detail.clone(),
        asked_prompt_tokens: request.prompt_tokens,
        asked_shared_tokens: request.shared_tokens,
        max_tokens: request.max_tokens,
        prompt_tokens: request.usage.map(|usage| usage.prompt_tokens),
        completion_tokens: request.usage.map(|usage| usage.completion_tokens),
        cached_tokens: request.usage.map(|usage| usage.cached_tokens),
        chunks: request.tokens,
        finish_reason: request.finish_reason.map(Into::into),
        tier: request.tier.map(|tier| tier_name(tier).to_owned()),
        bound_ms: millis(request.bound),
        confidence: request.confidence,
        retry_after_ms: millis(request.retry_after),
        gaps_us: request.gaps.clone(),
    }
}

fn tier_name(tier: admit::Tier) -> &'static str {
    match tier {
        admit::Tier::Promised => "promised",
        admit::Tier::BestEffort => "best-effort",
    }
}

fn class(ending: Ending) -> Class {
    match ending {
        Ending::Ok => Class::Ok,
        Ending::Shed => Class::Shed,
        Ending::HttpStatus => Class::HttpStatus,
        Ending::InBandError => Class::InBandError,
        Ending::Timeout => Class::Timeout,
        Ending::Left => Class::Interrupted,
    }
}
