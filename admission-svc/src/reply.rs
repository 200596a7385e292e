//! Domain types into wire types.

use admit::{Admitted, Attempt, Budget, EngineStatus, How, Reason, Refused, Tier, Verdict};
use proto::v1;
use tonic::Status;

use crate::{message::State, settings::Settings};

/// The answer to a `Decide`.
///
/// # Errors
/// Another call speaks for the request.
pub(crate) fn decided(
    verdict: Verdict,
    attempt: Attempt,
    policy: &str,
) -> Result<v1::DecideResponse, Status> {
    use v1::decide_response::Verdict as Wire;
    let (held, verdict) = match verdict {
        Verdict::Admitted(it) => (it.held, Wire::Admitted(admitted(it))),
        Verdict::Refused(it) => (it.held, Wire::Refused(refused(&it))),
        Verdict::Superseded { by } if by == attempt.number => {
            return Err(Status::already_exists(format!("attempt {by} was offered before")));
        }
        Verdict::Superseded { by } => {
            return Err(Status::aborted(format!("superseded by attempt {by}")));
        }
    };
    Ok(v1::DecideResponse { verdict: Some(verdict), held_us: held.0, policy: policy.into() })
}

fn admitted(it: Admitted) -> v1::Admitted {
    v1::Admitted {
        tier: tier(it.tier).into(),
        candidate: it.candidate,
        epoch: it.epoch,
        lease_us: it.lease.0,
        budget: Some(budget(it.budget)),
        bound_us: it.bound.map(|bound| bound.0),
        confidence: it.confidence,
        evict: it.evict.iter().map(ToString::to_string).collect(),
    }
}

fn refused(it: &Refused) -> v1::Refused {
    v1::Refused {
        reason: reason(it.cause.reason()).into(),
        message: it.cause.to_string(),
        retry_after_us: it.retry_after.0,
        permanent: it.permanent,
        bound_us: it.cause.bound().map(|bound| bound.0),
        budget_us: it.budget.e2e.map(|budget| budget.0),
        max_tokens_that_fit: it.max_tokens_that_fit,
    }
}

pub(crate) fn budget(budget: Budget) -> v1::Budget {
    v1::Budget { e2e_us: budget.e2e.map(|it| it.0), ttft_us: budget.ttft.map(|it| it.0) }
}

pub(crate) fn tier(tier: Tier) -> v1::Tier {
    match tier {
        Tier::Promised => v1::Tier::Promised,
        Tier::BestEffort => v1::Tier::BestEffort,
    }
}

pub(crate) fn reason(reason: Reason) -> v1::RefusalReason {
    match reason {
        Reason::Requests => v1::RefusalReason::Requests,
        Reason::Tokens => v1::RefusalReason::Tokens,
        Reason::Kv => v1::RefusalReason::Kv,
        Reason::NoEngine => v1::RefusalReason::NoEngine,
        Reason::Slo => v1::RefusalReason::Slo,
        Reason::Draining => v1::RefusalReason::Draining,
        Reason::Never => v1::RefusalReason::Never,
    }
}

/// The policy in force and what it sees.
pub(crate) fn policy(state: State, settings: &Settings) -> v1::PolicyResponse {
    let view = state.view;
    let counters = view.counters;
    let engines = settings.engines().into_iter().zip(state.problems).zip(0..);
    let engines = engines.map(|((address, problem), id)| {
        let status = view.engines.iter().find(|it| it.engine.0 == id);
        let seen = status.map_or_else(Default::default, engine_view);
        v1::EngineView { address, problem, ..seen }
    });
    v1::PolicyResponse {
        policy: settings.controller().policy.name().into(),
        parameters: settings
            .parameters()
            .into_iter()
            .map(|(key, value)| (key.into(), value))
            .collect(),
        engines: engines.collect(),
        leases: small(view.leases),
        held: small(view.held as u64),
        standalone: small(view.standalone as u64),
        counters: Some(v1::Counters {
            admitted: counters.admitted,
            refused: counters.refused,
            leases_expired: counters.leases_expired,
            censored: counters.censored,
            finished: counters.finished,
        }),
        draining: view.draining,
        version: env!("CARGO_PKG_VERSION").into(),
    }
}

fn engine_view(status: &EngineStatus) -> v1::EngineView {
    v1::EngineView {
        address: String::new(),
        // Nobody is let in while the connection is interrupted: no epoch then.
        engine_instance: if status.connected { status.instance.to_string() } else { String::new() },
        epoch: if status.connected { status.epoch } else { 0 },
        snapshot_age_us: status.snapshot_age.map(|age| age.0),
        requests: small(status.totals.requests),
        tokens: status.totals.tokens,
        kv_blocks: small(status.totals.blocks),
        rate_tokens: status.rate,
        problem: String::new(),
    }
}

pub(crate) fn ended(how: How) -> v1::trace_row::Outcome {
    match how {
        How::Completed => v1::trace_row::Outcome::Completed,
        How::Cancelled => v1::trace_row::Outcome::Cancelled,
        How::Failed => v1::trace_row::Outcome::Failed,
    }
}

/// Counts that the wire carries in 32 bits.
pub(crate) fn small(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
