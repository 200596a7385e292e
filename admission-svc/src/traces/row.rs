//! A closed decision as a row.

use admit::{Outcome, Reason, SeenEngine, Tier, Trace, TracedVerdict, Why};
use proto::v1;
use sha2::{Digest as _, Sha256};

use crate::reply::{budget, ended, reason, small, tier};

/// What all rows of one run of the process have in common.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    /// Unique, and growing from run to run.
    pub(crate) run_id: String,
    /// The collection round that the operator named.
    pub(crate) round: String,
    /// Name of the policy.
    pub(crate) policy: &'static str,
    /// What it was set to, `name=value` each, by the names of the configuration.
    pub(crate) parameters: String,
}

/// A row without its number.
pub(super) fn row(trace: &Trace, origin: &Origin) -> v1::TraceRow {
    let outcome = match trace.outcome {
        Outcome::Refused => v1::trace_row::Outcome::Refused,
        Outcome::Censored(_) => v1::trace_row::Outcome::Censored,
        Outcome::Ended(seen) => ended(seen.how),
    };
    let seen = match trace.outcome {
        Outcome::Ended(seen) => Some(seen),
        Outcome::Refused | Outcome::Censored(_) => None,
    };
    let cut = match trace.outcome {
        Outcome::Censored(cut) => Some(cut),
        Outcome::Refused | Outcome::Ended(_) => None,
    };
    let (saw, way) = (&trace.saw, trace.way);
    let verdict = Verdict::of(trace.verdict);
    v1::TraceRow {
        number: 0,
        request_id: trace.attempt.id.to_string(),
        attempt: trace.attempt.number,
        policy: origin.policy.into(),
        engine_instance: saw.instance.to_string(),
        prompt_tokens: saw.prompt.0,
        cached_tokens: saw.cached.0,
        max_tokens: saw.max_tokens.0,
        budget: Some(budget(saw.budget)),
        requests_in_system: small(saw.in_system.requests),
        tokens_in_system: saw.in_system.tokens,
        tier: tier_or_none(verdict.tier),
        refusal: verdict.refusal.map_or(v1::RefusalReason::Unspecified, reason).into(),
        held_us: trace.held.0,
        bound_us: verdict.bound_us,
        confidence: verdict.confidence,
        propensity: verdict.propensity,
        ttft_us: seen.and_then(|it| it.ttft).map(|it| it.0),
        e2e_us: seen.map(|it| it.e2e.0),
        completion_tokens: seen
            .map(|it| it.completion)
            .or(cut.map(|it| it.generated))
            .map_or(0, |it| it.0),
        outcome: outcome.into(),
        run_id: origin.run_id.clone(),
        round: origin.round.clone(),
        version: env!("CARGO_PKG_VERSION").into(),
        offered_unix_us: trace.offered_unix.0,
        offered_at_us: trace.offered_at.0,
        patience_us: saw.patience.0,
        accept_best_effort: saw.accept_best_effort,
        tenant_hash: tenant_hash(&saw.tenant),
        priority: saw.priority,
        candidates: saw.candidates,
        leases_in_system: small(saw.in_system.leases),
        kv_blocks_in_system: saw.in_system.blocks,
        work_in_system: saw.in_system.work,
        engine: saw.engine.as_ref().map(seen_engine),
        submitted_us: way.submitted.map(|it| it.0),
        started_us: way.started.map(|it| it.0),
        first_token_us: way.first_token.map(|it| it.0),
        cached_found_tokens: way.cached.map(|it| it.0),
        ran_as: tier_or_none(way.ran_as),
        policy_parameters: origin.parameters.clone(),
        observed_us: seen.map(|it| it.e2e).or(cut.map(|it| it.after)).unwrap_or(trace.held).0,
        censoring: cut.map_or(v1::trace_row::Censoring::Unspecified, |it| censoring(it.why)).into(),
    }
}

/// The answer, member by member.
struct Verdict {
    tier: Option<Tier>,
    refusal: Option<Reason>,
    bound_us: Option<u64>,
    confidence: Option<f64>,
    propensity: f64,
}

impl Verdict {
    fn of(verdict: Option<TracedVerdict>) -> Self {
        let none =
            Self { tier: None, refusal: None, bound_us: None, confidence: None, propensity: 1.0 };
        match verdict {
            None => none,
            Some(TracedVerdict::Refused(why)) => Self { refusal: Some(why), ..none },
            Some(TracedVerdict::Admitted { tier, bound, confidence, propensity }) => Self {
                tier: Some(tier),
                bound_us: bound.map(|it| it.0),
                confidence,
                propensity,
                ..none
            },
        }
    }
}

fn censoring(why: Why) -> v1::trace_row::Censoring {
    match why {
        Why::Unsubmitted => v1::trace_row::Censoring::Unsubmitted,
        Why::EngineLost => v1::trace_row::Censoring::EngineLost,
        Why::Unreported => v1::trace_row::Censoring::Unreported,
        Why::Replaced => v1::trace_row::Censoring::Replaced,
        Why::Untold => v1::trace_row::Censoring::Untold,
        Why::Stopped => v1::trace_row::Censoring::Stopped,
    }
}

fn tier_or_none(given: Option<Tier>) -> i32 {
    given.map_or(v1::Tier::Unspecified, tier).into()
}

/// Tells tenants apart without telling who they are: names may be keys.
fn tenant_hash(name: &str) -> String {
    if name.is_empty() {
        return String::new();
    }
    Sha256::digest(name).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

fn seen_engine(seen: &SeenEngine) -> v1::SeenEngine {
    v1::SeenEngine {
        running: seen.running,
        decoding: seen.decoding,
        waiting: seen.waiting,
        promised: seen.promised,
        prefill_left_tokens: seen.prefill_left,
        slots: seen.slots,
        kv: Some(v1::KvUsage {
            total: seen.kv_total,
            held: seen.kv.held.0,
            reclaimable: seen.kv.reclaimable.0,
            free: seen.kv.free.0,
        }),
        kv_room: seen.room,
        rate_tokens: seen.rate,
        rate_measured: seen.rate_measured,
        cost: Some(v1::StepCost {
            base_us: seen.cost.base,
            per_decode_us: seen.cost.per_decode,
            per_prefill_token_us: seen.cost.per_prefill_token,
            per_cell_us: seen.cost.per_cell,
            gain: seen.cost.gain,
            per_tiled_cell_us: seen.cost.per_tiled_cell,
            prompt_us: seen.cost.prompt,
            bend_us: seen.cost.bend.values().to_vec(),
        }),
        step: seen.step,
        age_us: seen.age.0,
        planner_version: seen.planner.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenants_are_told_apart_and_not_named() {
        assert_eq!(tenant_hash(""), "");
        assert_eq!(tenant_hash("abc"), "ba7816bf8f01cfea");
        assert_ne!(tenant_hash("abc"), tenant_hash("abd"));
    }
}
