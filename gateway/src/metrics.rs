//! What is counted and timed. Every label comes from a fixed set: nothing that a client chooses
//! becomes a series.

use metrics::{
    Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};
use units::Span;

const REQUESTS: &str = "cadence_gateway_requests_total";
const IN_FLIGHT: &str = "cadence_gateway_in_flight";
const PREPARE: &str = "cadence_gateway_prepare_seconds";
const DECIDE: &str = "cadence_gateway_decide_seconds";
const TTFT: &str = "cadence_gateway_ttft_seconds";
const E2E: &str = "cadence_gateway_e2e_seconds";
const REFUSALS: &str = "cadence_gateway_refusals_total";
const FALLBACKS: &str = "cadence_gateway_fallbacks_total";
const RETRIES: &str = "cadence_gateway_engine_retries_total";
const CANCELLED: &str = "cadence_gateway_cancelled_total";
const STREAM_ERRORS: &str = "cadence_gateway_stream_errors_total";
const PANICS: &str = "cadence_gateway_panics_total";
const CONNECTIONS: &str = "cadence_gateway_connections";
const REJECTIONS: &str = "cadence_gateway_rejections_total";
const BODY_BYTES: &str = "cadence_gateway_body_bytes";
const KEY_LIMITS: &str = "cadence_gateway_key_limits_total";
const UP: &str = "cadence_gateway_upstream_up";

/// How far a chat request had come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Not yet accepted by the engine: preparing, held or being submitted.
    Entering,
    /// Accepted; no token yet.
    Prefill,
    /// Tokens flow.
    Decode,
}

impl Progress {
    fn label(self) -> &'static str {
        match self {
            Self::Entering => "entering",
            Self::Prefill => "prefill",
            Self::Decode => "decode",
        }
    }
}

/// Explains the metrics to whoever reads the exposition.
pub(crate) fn describe() {
    let counters = [
        (REQUESTS, "HTTP requests that ended, by route and status class"),
        (REFUSALS, "chat requests that were refused, by reason"),
        (FALLBACKS, "chat requests met without the admission service, by outcome"),
        (RETRIES, "requests that were brought into another engine because theirs was lost"),
        (CANCELLED, "chat requests whose client went away, by progress"),
        (STREAM_ERRORS, "streams that ended with an error event, by code"),
        (REJECTIONS, "connections that were refused before they made a request, or cut, by reason"),
        (KEY_LIMITS, "requests that were refused because of their API key's limits, by limit"),
        (PANICS, "panics in handlers, each answered with 500"),
    ];
    for (name, text) in counters {
        describe_counter!(name, text);
    }
    let histograms = [
        (PREPARE, "time the engine took to prepare a request"),
        (DECIDE, "time the admission service took for a verdict, holding included"),
        (TTFT, "head of the HTTP request to the first token"),
        (E2E, "head of the HTTP request to the last token, for finished answers"),
    ];
    for (name, text) in histograms {
        describe_histogram!(name, Unit::Seconds, text);
    }
    describe_gauge!(IN_FLIGHT, "HTTP requests without a complete answer, by route");
    describe_gauge!(CONNECTIONS, "open connections of clients");
    describe_gauge!(BODY_BYTES, "bytes that request bodies hold of their common budget");
    describe_gauge!(UP, "whether the last probe of an upstream succeeded");
}

pub(crate) fn flight_began(route: &'static str) {
    gauge!(IN_FLIGHT, "route" => route).increment(1);
}

pub(crate) fn flight_ended(route: &'static str, status: &'static str) {
    gauge!(IN_FLIGHT, "route" => route).decrement(1);
    counter!(REQUESTS, "route" => route, "status" => status).increment(1);
}

pub(crate) fn prepared(took: Span) {
    histogram!(PREPARE).record(took.as_secs_f64());
}

pub(crate) fn decided(took: Span) {
    histogram!(DECIDE).record(took.as_secs_f64());
}

pub(crate) fn first_token(after: Span) {
    histogram!(TTFT).record(after.as_secs_f64());
}

pub(crate) fn finished(after: Span) {
    histogram!(E2E).record(after.as_secs_f64());
}

pub(crate) fn refused(reason: &'static str) {
    counter!(REFUSALS, "reason" => reason).increment(1);
}

pub(crate) fn fallback(admitted: bool) {
    let outcome = if admitted { "admitted" } else { "refused" };
    counter!(FALLBACKS, "outcome" => outcome).increment(1);
}

pub(crate) fn retried() {
    counter!(RETRIES).increment(1);
}

pub(crate) fn cancelled(progress: Progress) {
    counter!(CANCELLED, "progress" => progress.label()).increment(1);
}

pub(crate) fn stream_error(code: &'static str) {
    counter!(STREAM_ERRORS, "code" => code).increment(1);
}

pub(crate) fn panicked() {
    counter!(PANICS).increment(1);
}

// Changes and not values: several threads would set these in another order than that of what they show.

pub(crate) fn connection_opened() {
    gauge!(CONNECTIONS).increment(1);
}

pub(crate) fn connection_closed() {
    gauge!(CONNECTIONS).decrement(1);
}

pub(crate) fn rejected(reason: &'static str) {
    counter!(REJECTIONS, "reason" => reason).increment(1);
}

pub(crate) fn body_bytes_taken(more: usize) {
    gauge!(BODY_BYTES).increment(more as f64);
}

pub(crate) fn body_bytes_given_back(less: usize) {
    gauge!(BODY_BYTES).decrement(less as f64);
}

pub(crate) fn limited(limit: &'static str) {
    counter!(KEY_LIMITS, "limit" => limit).increment(1);
}

pub(crate) fn engine_up(up: bool) {
    gauge!(UP, "upstream" => "engine").set(f64::from(u8::from(up)));
}

pub(crate) fn admission_up(up: bool) {
    gauge!(UP, "upstream" => "admission").set(f64::from(u8::from(up)));
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Arc;

    use metrics::{
        Counter, Gauge, GaugeFn, Histogram, Key, KeyName, Metadata, Recorder, SharedString,
    };

    use super::*;

    /// The sum of all gauges.
    #[derive(Default)]
    pub(crate) struct Shown(Arc<Sum>);

    #[derive(Default)]
    struct Sum(std::sync::Mutex<f64>);

    impl Shown {
        #[expect(clippy::cast_possible_truncation, reason = "these gauges count")]
        pub(crate) fn value(&self) -> i64 {
            *self.0.0.lock().expect("no panic") as i64
        }
    }

    impl GaugeFn for Sum {
        fn increment(&self, value: f64) {
            *self.0.lock().expect("no panic") += value;
        }

        fn decrement(&self, value: f64) {
            *self.0.lock().expect("no panic") -= value;
        }

        fn set(&self, value: f64) {
            *self.0.lock().expect("no panic") = value;
        }
    }

    impl Recorder for Shown {
        fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

        fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

        fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

        fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
            Counter::noop()
        }

        fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
            Gauge::from_arc(Arc::clone(&self.0))
        }

        fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
            Histogram::noop()
        }
    }

    /// Runs `code` with its gauges in `shown`.
    pub(crate) fn metrics_of<T>(shown: &Shown, code: impl FnOnce() -> T) -> T {
        metrics::with_local_recorder(shown, code)
    }
}
