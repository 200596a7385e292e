//! A row as named columns: the one place that says what an export holds.

use proto::v1::{
    Budget, RefusalReason, SeenEngine, StepCost, Tier, TraceRow,
    trace_row::{Censoring, Outcome},
};

/// A value of a column. A column has the same kind in every row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value<'a> {
    Count(Option<u64>),
    Signed(Option<i64>),
    Real(Option<f64>),
    Flag(bool),
    Text(Option<&'a str>),
}

/// One column.
pub(crate) struct Column {
    pub(crate) name: &'static str,
    /// For people.
    pub(crate) about: &'static str,
    pub(crate) get: fn(&TraceRow) -> Value<'_>,
}

use Value::{Count, Flag, Real, Signed, Text};

macro_rules! columns {
    ($($name:ident, $about:literal, |$row:ident| $value:expr;)*) => {
        &[$(Column { name: stringify!($name), about: $about, get: |$row| $value },)*]
    };
}

/// All of them, in order.
pub(crate) const COLUMNS: &[Column] = columns! {
    number, "number of the row; a gap is a loss", |row| Count(Some(row.number));
    run_id, "one run of the admission process; runs sort by it", |row| text(&row.run_id);
    round, "the collection round that the operator named", |row| text(&row.round);
    request_id, "the request", |row| text(&row.request_id);
    attempt, "which try of it, 0 the first", |row| count(row.attempt);
    policy, "the policy that decided", |row| text(&row.policy);
    policy_parameters, "what it was set to", |row| text(&row.policy_parameters);
    version, "version of the software", |row| text(&row.version);
    engine_instance, "the engine that was decided about", |row| text(&row.engine_instance);
    offered_unix_us, "when it was offered, since 1970", |row| Count(Some(row.offered_unix_us));
    offered_at_us, "the same on the run's own clock", |row| Count(Some(row.offered_at_us));
    prompt_tokens, "length of the prompt", |row| count(row.prompt_tokens);
    cached_tokens, "how much of it was said to be cached", |row| count(row.cached_tokens);
    max_tokens, "cap on generated tokens", |row| count(row.max_tokens);
    budget_e2e_us, "budget until the last token", |row| Count(budget(row).e2e_us);
    budget_ttft_us, "budget until the first token", |row| Count(budget(row).ttft_us);
    patience_us, "how long the caller would wait", |row| Count(Some(row.patience_us));
    accept_best_effort, "whether it would do without a promise",
        |row| Flag(row.accept_best_effort);
    tenant_hash, "tells tenants apart", |row| text(&row.tenant_hash);
    priority, "higher is more urgent", |row| Signed(Some(row.priority.into()));
    candidates, "engines to choose from", |row| count(row.candidates);
    requests_in_system, "requests in the engine's system", |row| count(row.requests_in_system);
    leases_in_system, "those not yet submitted", |row| count(row.leases_in_system);
    tokens_in_system, "prompts and caps there", |row| Count(Some(row.tokens_in_system));
    kv_blocks_in_system, "KV blocks they may hold", |row| Count(Some(row.kv_blocks_in_system));
    work_in_system, "tokens still to be computed at most", |row| Count(Some(row.work_in_system));
    running, "sequences with a slot", |row| Count(seen(row, |it| it.running.into()));
    decoding, "those being answered", |row| Count(seen(row, |it| it.decoding.into()));
    waiting, "requests without a slot", |row| Count(seen(row, |it| it.waiting.into()));
    promised, "requests with a promise", |row| Count(seen(row, |it| it.promised.into()));
    prefill_left_tokens, "prompt tokens to be computed",
        |row| Count(seen(row, |it| it.prefill_left_tokens));
    slots, "sequences that can run at once", |row| Count(seen(row, |it| it.slots.into()));
    kv_total, "all KV blocks", |row| Count(seen(row, |it| it.kv.unwrap_or_default().total.into()));
    kv_held, "held by sequences", |row| Count(seen(row, |it| it.kv.unwrap_or_default().held.into()));
    kv_reclaimable, "kept for reuse",
        |row| Count(seen(row, |it| it.kv.unwrap_or_default().reclaimable.into()));
    kv_free, "held by nobody", |row| Count(seen(row, |it| it.kv.unwrap_or_default().free.into()));
    kv_room, "what a newcomer could have had", |row| Count(seen(row, |it| it.kv_room));
    rate_tokens, "tokens a second, smoothed", |row| real(seen(row, |it| it.rate_tokens));
    rate_measured, "whether that was measured rather than assumed",
        |row| Flag(row.engine.as_ref().is_some_and(|it| it.rate_measured));
    cost_base_us, "step cost: of any step", |row| real(cost(row, |it| it.base_us));
    cost_per_decode_us, "of each decoding sequence", |row| real(cost(row, |it| it.per_decode_us));
    cost_per_prefill_token_us, "of each prompt token",
        |row| real(cost(row, |it| it.per_prefill_token_us));
    cost_per_cell_us, "of each attended cell", |row| real(cost(row, |it| it.per_cell_us));
    cost_per_tiled_cell_us, "of each cell of long prompts",
        |row| real(cost(row, |it| it.per_tiled_cell_us));
    cost_prompt_us, "of any prompt", |row| real(cost(row, |it| it.prompt_us));
    cost_gain, "all of it times this", |row| real(cost(row, |it| it.gain));
    step, "number of the engine's last step", |row| Count(seen(row, |it| it.step));
    snapshot_age_us, "how old the engine's state was", |row| Count(seen(row, |it| it.age_us));
    planner_version, "the engine's planning rules",
        |row| Text(row.engine.as_ref().map(|it| &*it.planner_version));
    verdict, "admitted, refused, or none when the caller left first", |row| Text(Some(verdict(row)));
    tier, "what was promised: promised, best_effort", |row| Text(tier_name(row.tier()));
    refusal, "why it was refused", |row| Text(refusal(row.refusal()));
    bound_us, "the promised bound", |row| Count(row.bound_us);
    confidence, "its confidence", |row| real(row.confidence);
    propensity, "probability of this verdict", |row| real(Some(row.propensity));
    held_us, "how long it was held", |row| Count(Some(row.held_us));
    submitted_us, "from the offer until its engine had it", |row| Count(row.submitted_us);
    started_us, "until it got a slot", |row| Count(row.started_us);
    first_token_us, "until admission heard of its first token", |row| Count(row.first_token_us);
    ttft_us, "until its first token, by the engine's timing", |row| Count(row.ttft_us);
    e2e_us, "until its end", |row| Count(row.e2e_us);
    cached_found_tokens, "prompt tokens found in the cache",
        |row| Count(row.cached_found_tokens.map(Into::into));
    ran_as, "what it really ran as", |row| Text(tier_name(row.ran_as()));
    completion_tokens, "tokens answered", |row| count(row.completion_tokens);
    outcome, "refused, completed, cancelled, failed, censored", |row| Text(outcome(row.outcome()));
    observed_us, "how long it was observed, whatever came of it",
        |row| Count(Some(row.observed_us));
    censored, "let in and not completed: observed_us and completion_tokens are lower bounds",
        |row| Flag(row.tier() != Tier::Unspecified && row.outcome() != Outcome::Completed);
    censoring, "why its end is not known: unsubmitted, engine_lost, unreported, replaced, untold, stopped",
        |row| Text(censoring(row.censoring()));
};

fn count(value: u32) -> Value<'static> {
    Count(Some(value.into()))
}

/// Numbers that are none exist in neither format alike.
fn real(value: Option<f64>) -> Value<'static> {
    Real(value.filter(|value| value.is_finite()))
}

fn text(value: &str) -> Value<'_> {
    Text(Some(value))
}

fn budget(row: &TraceRow) -> Budget {
    row.budget.unwrap_or_default()
}

fn seen<T>(row: &TraceRow, get: impl Fn(&SeenEngine) -> T) -> Option<T> {
    row.engine.as_ref().map(get)
}

fn cost(row: &TraceRow, get: impl Fn(&StepCost) -> f64) -> Option<f64> {
    row.engine.as_ref().and_then(|engine| engine.cost.as_ref()).map(get)
}

fn verdict(row: &TraceRow) -> &'static str {
    match (row.tier(), row.refusal()) {
        (Tier::Promised | Tier::BestEffort, _) => "admitted",
        (Tier::Unspecified, RefusalReason::Unspecified) => "none",
        (
            Tier::Unspecified,
            RefusalReason::Requests
            | RefusalReason::Tokens
            | RefusalReason::Kv
            | RefusalReason::NoEngine
            | RefusalReason::Slo
            | RefusalReason::Draining
            | RefusalReason::Never,
        ) => "refused",
    }
}

fn tier_name(tier: Tier) -> Option<&'static str> {
    match tier {
        Tier::Unspecified => None,
        Tier::Promised => Some("promised"),
        Tier::BestEffort => Some("best_effort"),
    }
}

fn refusal(reason: RefusalReason) -> Option<&'static str> {
    match reason {
        RefusalReason::Unspecified => None,
        RefusalReason::Requests => Some("requests"),
        RefusalReason::Tokens => Some("tokens"),
        RefusalReason::Kv => Some("kv"),
        RefusalReason::NoEngine => Some("no_engine"),
        RefusalReason::Slo => Some("slo"),
        RefusalReason::Draining => Some("draining"),
        RefusalReason::Never => Some("never"),
    }
}

fn censoring(why: Censoring) -> Option<&'static str> {
    match why {
        Censoring::Unspecified => None,
        Censoring::Unsubmitted => Some("unsubmitted"),
        Censoring::EngineLost => Some("engine_lost"),
        Censoring::Unreported => Some("unreported"),
        Censoring::Replaced => Some("replaced"),
        Censoring::Untold => Some("untold"),
        Censoring::Stopped => Some("stopped"),
    }
}

/// The name of an outcome; absent for one that this software does not know.
pub(crate) fn outcome(outcome: Outcome) -> Option<&'static str> {
    match outcome {
        Outcome::Unspecified => None,
        Outcome::Refused => Some("refused"),
        Outcome::Completed => Some("completed"),
        Outcome::Cancelled => Some("cancelled"),
        Outcome::Failed => Some("failed"),
        Outcome::Censored => Some("censored"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_told() {
        let mut names: Vec<_> = COLUMNS.iter().map(|column| column.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), COLUMNS.len());
        assert!(COLUMNS.iter().all(|column| !column.about.is_empty()));
    }

    #[test]
    fn a_column_keeps_its_kind() {
        let full = TraceRow {
            engine: Some(SeenEngine { cost: Some(StepCost::default()), ..Default::default() }),
            bound_us: Some(1),
            tier: Tier::Promised.into(),
            ..Default::default()
        };
        let empty = TraceRow::default();
        for column in COLUMNS {
            let [empty, full] = [&empty, &full].map(|row| (column.get)(row));
            let same = std::mem::discriminant(&empty) == std::mem::discriminant(&full);
            assert!(same, "{}", column.name);
        }
    }
}
