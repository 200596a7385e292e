//! The production core against the reference and against a ghost of the engine: random operations, and
//! after each of them every observable is compared.
//!
//! 600 sequences for each layout; `CADENCE_KV_SEQUENCES` says another number (`make fuzz-kv`: 5,000). A
//! sequence that fails is named by its seed.

mod coverage;
mod ghost;
mod pair;
mod sequence;

use coverage::Coverage;
use kv::Layout;

const SEQUENCES: u64 = 600;

#[test]
fn unified_cores_agree() {
    run("unified", |_| Layout::Unified).report(&["hit", "copy", "eviction", "split", "exhaustion"]);
}

#[test]
fn streams_cores_agree() {
    let layout = |seed: u64| Layout::Streams { token_bytes: 3, bytes_max: 150 + seed % 7 * 100 };
    run("streams", layout).report(&["hit", "eviction", "split", "exhaustion", "no room"]);
}

fn run(name: &'static str, layout: impl Fn(u64) -> Layout) -> Coverage {
    let mut coverage = Coverage::new(name);
    for seed in 0..sequences() {
        coverage.add(sequence::run(seed, layout(seed)));
    }
    coverage
}

#[expect(clippy::disallowed_methods, reason = "a test, asked for more by whoever runs it")]
fn sequences() -> u64 {
    let asked = std::env::var("CADENCE_KV_SEQUENCES");
    asked.map_or(SEQUENCES, |text| text.parse().expect("a number of sequences"))
}
