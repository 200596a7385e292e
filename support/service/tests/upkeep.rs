//! Metrics that nobody scrapes. Alone in its process, whose memory it measures.

use std::{fs, time::Duration};

/// Without upkeep so many take more than twice the growth that is allowed.
const BATCH: u32 = 3_000_000;
const GROWTH_MAX: u64 = 24 << 20;

fn resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a size");
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kib << 10
}

/// A busy quarter of an hour of samples, and the time for the upkeep to run.
async fn batch() {
    for sample in 0..BATCH {
        metrics::histogram!("sample_seconds").record(f64::from(sample) * 1e-6);
    }
    tokio::time::sleep(Duration::from_millis(5_500)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn samples_do_not_pile_up_without_a_scraper() {
    let handle = service::telemetry::start_metrics().expect("the only recorder");
    batch().await;
    let before = resident_bytes();
    batch().await;
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < GROWTH_MAX, "grown by {} MiB", grown >> 20);
    let text = handle.render();
    assert!(text.contains("sample_seconds_count 6000000"), "samples were lost: {text}");
}
