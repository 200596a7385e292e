//! The engine's metrics. Labels come from fixed sets only.

use metrics::{
    Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};
use sched::{Event, FinishReason, Refusal, StepPlan, Tier};
use units::Span;

use crate::{hub::Published, laps::Laps};

/// Says what every metric means. Once, after the recorder was installed.
pub(crate) fn describe() {
    use Unit::{Count, Seconds};
    describe_histogram!(
        "cadence_engine_step_seconds",
        Seconds,
        "Time of a step inside the backend."
    );
    describe_histogram!(
        "cadence_engine_step_rows",
        Count,
        "Rows of a step: decodes and prompt tokens."
    );
    describe_histogram!(
        "cadence_engine_step_overhead_seconds",
        Seconds,
        "Time of a step outside the backend."
    );
    describe_histogram!(
        "cadence_engine_step_part_seconds",
        Seconds,
        "Where the time of a step went, by part; together they are the step."
    );
    describe_histogram!(
        "cadence_engine_queue_seconds",
        Seconds,
        "From submission to a slot, of requests that got one."
    );
    describe_histogram!(
        "cadence_engine_first_token_seconds",
        Seconds,
        "From submission to the first token, of requests that sampled one."
    );
    describe_gauge!(
        "cadence_engine_itl_target_seconds",
        Seconds,
        "The gap between tokens that prompts are planned to keep; 0 without one."
    );
    for (name, meaning) in COUNTERS {
        describe_counter!(name, Count, meaning);
    }
    for (name, meaning) in GAUGES {
        describe_gauge!(name, Count, meaning);
    }
}

const COUNTERS: [(&str, &str); 15] = [
    ("cadence_engine_prefill_tokens_total", "Prompt tokens that were computed."),
    ("cadence_engine_generated_tokens_total", "Tokens that were sampled."),
    (
        "cadence_engine_itl_exceeded_total",
        "Steps with prompt tokens beside answers that took longer than the target.",
    ),
    ("cadence_engine_accepted_total", "Requests that came into the queue, by tier."),
    ("cadence_engine_refused_total", "Requests that did not, by reason."),
    ("cadence_engine_finished_total", "Requests that ended, by reason."),
    ("cadence_engine_prompt_tokens_total", "Prompt tokens of requests that got a slot."),
    ("cadence_engine_cached_tokens_total", "Of them, found in the prefix cache."),
    ("cadence_engine_preempted_total", "Running requests sent back to the queue, by cause."),
    ("cadence_engine_aborted_total", "Running requests ended because they were late, by tier."),
    ("cadence_engine_demoted_total", "Promises that were late and lost their protection."),
    ("cadence_engine_prefix_evictions_total", "Kept prefixes given up for room."),
    ("cadence_engine_prefix_splits_total", "Kept prefixes split where prompts part."),
    ("cadence_engine_prefix_forgotten_total", "Times that all kept prefixes were given up."),
    ("cadence_engine_kv_copies_total", "Shared KV blocks copied before they were written to."),
];

const GAUGES: [(&str, &str); 8] = [
    ("cadence_engine_running", "Requests with a slot."),
    ("cadence_engine_waiting", "Requests that wait for one."),
    ("cadence_engine_prepared", "Prepared requests that wait for their Generate."),
    ("cadence_engine_kv_blocks", "KV blocks, by state."),
    ("cadence_engine_prefix_nodes", "Kept prefixes."),
    ("cadence_engine_prefix_tokens", "Tokens that they keep."),
    ("cadence_engine_prefix_bytes", "Host memory that they take."),
    ("cadence_engine_step_cost_gain", "How much slower the machine is than when it was measured."),
];

/// A step that the engine ran, with the target for gaps.
pub(crate) fn step(plan: &StepPlan, took: Span, itl: Option<Span>) {
    let disturbs = plan.shape.decodes > 0 && plan.shape.prefill > 0;
    let exceeds = disturbs && itl.is_some_and(|itl| took > itl);
    counter!("cadence_engine_itl_exceeded_total").increment(exceeds.into());
    histogram!("cadence_engine_step_seconds").record(took.as_secs_f64());
    histogram!("cadence_engine_step_rows")
        .record(f64::from(plan.shape.decodes + plan.shape.prefill));
    counter!("cadence_engine_prefill_tokens_total").increment(plan.shape.prefill.into());
}

/// Where the time of a step went, of which the engine took some.
pub(crate) fn laps(laps: &Laps, engine: Span) {
    let overhead = laps.whole().saturating_sub(engine);
    histogram!("cadence_engine_step_overhead_seconds").record(overhead.as_secs_f64());
    for (part, spent) in laps.parts() {
        histogram!("cadence_engine_step_part_seconds", "part" => part.name())
            .record(spent.as_secs_f64());
    }
}

/// What the scheduler said.
pub(crate) fn event(event: &Event) {
    match event {
        Event::Accepted { tier, .. } => {
            let tier = match tier {
                Tier::Promised => "promised",
                Tier::BestEffort => "best-effort",
            };
            counter!("cadence_engine_accepted_total", "tier" => tier).increment(1);
        }
        Event::Refused { refusal, .. } => {
            counter!("cadence_engine_refused_total", "reason" => refused(refusal)).increment(1);
        }
        Event::Token { .. } => counter!("cadence_engine_generated_tokens_total").increment(1),
        Event::Finished { reason, timings, .. } => {
            counter!("cadence_engine_finished_total", "reason" => finished(reason)).increment(1);
            if let Some(started) = timings.started {
                histogram!("cadence_engine_queue_seconds").record(started.as_secs_f64());
            }
            if let Some(first) = timings.first_token {
                histogram!("cadence_engine_first_token_seconds").record(first.as_secs_f64());
            }
        }
        Event::Started { .. } | Event::Step(_) => {}
    }
}

/// The gauges, read when somebody scrapes or asks.
pub(crate) fn gauges(published: &Published, prepared: usize) {
    let snapshot = &published.snapshot;
    let waiting = snapshot.sequences.len() - snapshot.running as usize;
    gauge!("cadence_engine_running").set(f64::from(snapshot.running));
    gauge!("cadence_engine_waiting").set(waiting as f64);
    gauge!("cadence_engine_prepared").set(prepared as f64);
    gauge!("cadence_engine_kv_blocks", "state" => "held").set(f64::from(snapshot.kv.held.0));
    gauge!("cadence_engine_kv_blocks", "state" => "free").set(f64::from(snapshot.kv.free.0));
    gauge!("cadence_engine_kv_blocks", "state" => "reclaimable")
        .set(f64::from(snapshot.kv.reclaimable.0));
    gauge!("cadence_engine_step_cost_gain").set(snapshot.cost.gain);
    let itl = snapshot.limits.rules.itl.unwrap_or_default();
    gauge!("cadence_engine_itl_target_seconds").set(itl.as_secs_f64());
    prefixes(&snapshot.cache);
    fates(&snapshot.counters);
}

fn prefixes(cache: &kv::Counters) {
    gauge!("cadence_engine_prefix_nodes").set(cache.nodes as f64);
    gauge!("cadence_engine_prefix_tokens").set(cache.tokens_kept as f64);
    gauge!("cadence_engine_prefix_bytes").set(cache.bytes as f64);
    counter!("cadence_engine_prompt_tokens_total").absolute(cache.tokens_asked);
    counter!("cadence_engine_cached_tokens_total").absolute(cache.tokens_found);
    counter!("cadence_engine_prefix_evictions_total").absolute(cache.evictions);
    counter!("cadence_engine_prefix_splits_total").absolute(cache.splits);
    counter!("cadence_engine_kv_copies_total").absolute(cache.copies);
}

/// What became of requests that did not simply run to their end.
fn fates(counters: &sched::Counters) {
    let preempted =
        |cause, count| counter!("cadence_engine_preempted_total", "cause" => cause).absolute(count);
    preempted("pressure", counters.preempted_by_pressure);
    preempted("promise", counters.preempted_by_promise);
    preempted("order", counters.evicted_by_order);
    let aborted =
        |tier, count| counter!("cadence_engine_aborted_total", "tier" => tier).absolute(count);
    aborted("promised", counters.aborted_promised);
    aborted("best-effort", counters.aborted_best_effort);
    counter!("cadence_engine_demoted_total").absolute(counters.demoted);
    counter!("cadence_engine_prefix_forgotten_total").absolute(counters.forgotten);
}

fn refused(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::Duplicate => "duplicate",
        Refusal::QueueFull { .. } => "queue-full",
        Refusal::UnleasedFull { .. } => "unleased-full",
        Refusal::TooLarge { .. } => "too-large",
        Refusal::Draining => "draining",
    }
}

fn finished(reason: &FinishReason) -> &'static str {
    match reason {
        FinishReason::Stop => "stop",
        FinishReason::Length => "length",
        FinishReason::Cancelled => "cancelled",
        FinishReason::Deadline => "deadline",
        FinishReason::Evicted => "evicted",
        FinishReason::Shutdown => "shutdown",
        FinishReason::Failed(_) => "failed",
    }
}
