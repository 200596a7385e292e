//! Metrics of the admission service. Labels come from fixed sets: verdicts, reasons, and the addresses
//! of the configuration.

use admit::{EngineId, Verdict, View};
use metrics::{
    Counter, Gauge, Histogram, counter, describe_counter, describe_gauge, describe_histogram,
    gauge, histogram,
};

use crate::traces::Facts;

const DECISIONS: &str = "cadence_admission_decisions_total";
const DECIDE_SECONDS: &str = "cadence_admission_decide_seconds";
const LEASES_EXPIRED: &str = "cadence_admission_leases_expired_total";
const HELD: &str = "cadence_admission_held";
const LEASES: &str = "cadence_admission_leases";
const STANDALONE: &str = "cadence_admission_standalone";
const REQUESTS: &str = "cadence_admission_in_system_requests";
const TOKENS: &str = "cadence_admission_in_system_tokens";
const BLOCKS: &str = "cadence_admission_in_system_kv_blocks";
const CONNECTED: &str = "cadence_admission_watch_connected";
const EPOCH: &str = "cadence_admission_epoch";
const TRACE_ROWS: &str = "cadence_admission_trace_rows_total";
const TRACE_DROPPED: &str = "cadence_admission_trace_dropped_total";
const TRACE_LOST: &str = "cadence_admission_trace_lost_total";
const TRACE_SKIPPED: &str = "cadence_admission_trace_skipped_total";
const TRACE_BYTES: &str = "cadence_admission_trace_bytes";
const TRACE_FLUSHED: &str = "cadence_admission_trace_flushed";
const TRACE_ON_DISK: &str = "cadence_admission_trace_on_disk";

/// Describes every metric to the installed recorder.
pub fn describe() {
    describe_counter!(DECISIONS, "Verdicts, by kind and by reason of refusal.");
    describe_histogram!(DECIDE_SECONDS, "Time of a Decide call, holding included.");
    describe_counter!(LEASES_EXPIRED, "Admitted requests that were never submitted.");
    describe_gauge!(HELD, "Requests that wait for a verdict.");
    describe_gauge!(LEASES, "Admitted requests that their engine has not reported yet.");
    describe_gauge!(STANDALONE, "Open requests of callers without a watched engine.");
    describe_gauge!(REQUESTS, "Requests in the systems of the watched engines.");
    describe_gauge!(TOKENS, "Prompt and capped answer tokens in those systems.");
    describe_gauge!(BLOCKS, "KV blocks that those systems may come to hold.");
    describe_gauge!(CONNECTED, "1 while the engine's watch is connected.");
    describe_gauge!(EPOCH, "The epoch that the engine granted, 0 without one.");
    describe_counter!(TRACE_ROWS, "Closed decisions that the trace store took.");
    describe_counter!(
        TRACE_DROPPED,
        "Closed decisions that it did not take: its queue was full, the disk refused, it has ended."
    );
    describe_counter!(
        TRACE_LOST,
        "Stored rows that could not be read back, since the folder was made."
    );
    describe_counter!(TRACE_SKIPPED, "Damaged or unknown rows left out of exports, each time.");
    describe_gauge!(TRACE_BYTES, "Bytes of the trace folder.");
    describe_gauge!(TRACE_FLUSHED, "Number of the latest row that a kill cannot lose.");
    describe_gauge!(
        TRACE_ON_DISK,
        "1 while traces go to disk, 0 while they are in memory only or the folder cannot be opened."
    );
}

/// Handles of the metrics that the actor sets.
pub(crate) struct Metrics {
    held: Gauge,
    leases: Gauge,
    standalone: Gauge,
    requests: Gauge,
    tokens: Gauge,
    blocks: Gauge,
    leases_expired: Counter,
    /// Connected and epoch, for each engine of the configuration.
    engines: Vec<(Gauge, Gauge)>,
}

impl Metrics {
    pub(crate) fn new(engines: &[String]) -> Self {
        let engine = |address: &String| {
            let connected = gauge!(CONNECTED, "engine" => address.clone());
            (connected, gauge!(EPOCH, "engine" => address.clone()))
        };
        Self {
            held: gauge!(HELD),
            leases: gauge!(LEASES),
            standalone: gauge!(STANDALONE),
            requests: gauge!(REQUESTS),
            tokens: gauge!(TOKENS),
            blocks: gauge!(BLOCKS),
            leases_expired: counter!(LEASES_EXPIRED),
            engines: engines.iter().map(engine).collect(),
        }
    }

    pub(crate) fn show(&self, view: &View) {
        let totals = view.totals();
        self.held.set(view.held as f64);
        self.leases.set(view.leases as f64);
        self.standalone.set(view.standalone as f64);
        self.requests.set(totals.requests as f64);
        self.tokens.set(totals.tokens as f64);
        self.blocks.set(totals.blocks as f64);
        for ((connected, epoch), id) in self.engines.iter().zip(0..) {
            let status = view.engines.iter().find(|it| it.engine == EngineId(id));
            connected.set(f64::from(u8::from(status.is_some_and(|it| it.connected))));
            epoch.set(status.map_or(0.0, |it| it.epoch as f64));
        }
    }

    pub(crate) fn lease_expired(&self) {
        self.leases_expired.increment(1);
    }
}

/// Why a row was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dropped {
    QueueFull,
    Disk,
    Ended,
}

/// Handles of the metrics of the trace store.
#[derive(Clone)]
pub(crate) struct TraceMetrics {
    rows: Counter,
    queue_full: Counter,
    disk: Counter,
    ended: Counter,
    lost: Counter,
    skipped: Counter,
    bytes: Gauge,
    flushed: Gauge,
    on_disk: Gauge,
}

impl TraceMetrics {
    pub(crate) fn new() -> Self {
        let dropped = |reason: &'static str| counter!(TRACE_DROPPED, "reason" => reason);
        Self {
            rows: counter!(TRACE_ROWS),
            queue_full: dropped("queue_full"),
            disk: dropped("disk"),
            ended: dropped("ended"),
            lost: counter!(TRACE_LOST),
            skipped: counter!(TRACE_SKIPPED),
            bytes: gauge!(TRACE_BYTES),
            flushed: gauge!(TRACE_FLUSHED),
            on_disk: gauge!(TRACE_ON_DISK),
        }
    }

    pub(crate) fn stored(&self, rows: u64) {
        self.rows.increment(rows);
    }

    pub(crate) fn dropped(&self, why: Dropped, rows: u64) {
        match why {
            Dropped::QueueFull => self.queue_full.increment(rows),
            Dropped::Disk => self.disk.increment(rows),
            Dropped::Ended => self.ended.increment(rows),
        }
    }

    pub(crate) fn skipped(&self, rows: u64) {
        self.skipped.increment(rows);
    }

    pub(crate) fn show(&self, facts: Facts) {
        self.lost.absolute(facts.lost);
        self.bytes.set(facts.bytes as f64);
        self.flushed.set(facts.flushed as f64);
    }

    pub(crate) fn on_disk(&self, yes: bool) {
        self.on_disk.set(f64::from(u8::from(yes)));
    }
}

/// The histogram of `Decide` calls.
pub(crate) fn decide_seconds() -> Histogram {
    histogram!(DECIDE_SECONDS)
}

/// Counts a verdict.
pub(crate) fn count(verdict: &Verdict) {
    let (kind, reason) = match verdict {
        Verdict::Admitted(_) => ("admitted", ""),
        Verdict::Refused(refused) => ("refused", refused.cause.reason().as_str()),
        Verdict::Superseded { .. } => ("superseded", ""),
    };
    counter!(DECISIONS, "verdict" => kind, "reason" => reason).increment(1);
}
