//! Decoding takes any bytes. Runs for `CADENCE_FUZZ_SECS` seconds, about one without. A case that
//! panicked is written to `corpus/` beside this file, and everything there is tried again each time.

use std::{
    fs,
    panic::catch_unwind,
    path::PathBuf,
    time::{Duration, Instant},
};

use admission_svc::{FrameError, decode, encode};
use proptest::{
    prelude::*,
    strategy::ValueTree as _,
    test_runner::{Config, TestRunner},
};
use proto::v1::{SeenEngine, StepCost, TraceRow};

fn corpus() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/traces/corpus")
}

fn row() -> impl Strategy<Value = TraceRow> {
    let numbers = (any::<u64>(), any::<u32>(), any::<i32>(), any::<f64>());
    let texts = (".{0,40}", "[0-9a-f]{32}", any::<Option<u64>>());
    (numbers, texts).prop_map(|((long, short, signed, real), (text, id, maybe))| TraceRow {
        number: long,
        request_id: id,
        attempt: short,
        priority: signed,
        tier: signed,
        propensity: real,
        round: text,
        ttft_us: maybe,
        engine: Some(SeenEngine {
            rate_tokens: real,
            cost: Some(StepCost { gain: real, ..Default::default() }),
            ..Default::default()
        }),
        ..Default::default()
    })
}

/// Bytes changed, cut, doubled.
fn mutated(bytes: impl Strategy<Value = Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..4), 0..8);
    (bytes, changes).prop_map(|(mut bytes, changes)| {
        for (at, byte, kind) in changes {
            let at = at.index(bytes.len().max(1)).min(bytes.len());
            match kind {
                0 => bytes.truncate(at),
                1 => bytes.insert(at, byte),
                2 => bytes.extend_from_within(at..),
                _ => bytes.get_mut(at).into_iter().for_each(|it| *it = byte),
            }
            bytes.truncate(4_096);
        }
        bytes
    })
}

/// A head that fits, so that the message itself is looked at.
fn framed(message: &[u8]) -> Vec<u8> {
    let mut summed = vec![1];
    summed.extend(message);
    let mut bytes = b"CTR\x01".to_vec();
    bytes.extend(u32::try_from(message.len()).expect("short").to_le_bytes());
    bytes.extend(crc32fast::hash(&summed).to_le_bytes());
    bytes.extend(message);
    bytes
}

fn any_bytes() -> impl Strategy<Value = Vec<u8>> {
    let random = prop::collection::vec(any::<u8>(), 0..300);
    let rows = || row().prop_map(|row| encode(&row));
    prop_oneof![
        random.clone(),
        mutated(rows()),
        random.prop_map(|message| framed(&message)),
        mutated(rows().prop_map(|bytes| bytes[12..].to_vec())).prop_map(|it| framed(&it)),
    ]
}

/// What can be decoded can be encoded again.
fn check(bytes: &[u8]) {
    match decode(bytes) {
        Ok(row) => assert!(decode(&encode(&row)).is_ok()),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

#[test]
fn decoding_takes_any_bytes() {
    let seconds = std::env::var("CADENCE_FUZZ_SECS").ok().and_then(|it| it.parse().ok());
    let deadline = Instant::now() + Duration::from_secs(seconds.unwrap_or(1));
    let mut runner = TestRunner::new(Config::default());
    let strategy = any_bytes();
    let mut cases = 0_u64;
    while Instant::now() < deadline || cases == 0 {
        let bytes = strategy.new_tree(&mut runner).expect("a case").current();
        if catch_unwind(|| check(&bytes)).is_err() {
            let path = corpus().join(format!("{:08x}.bin", crc32fast::hash(&bytes)));
            fs::write(&path, &bytes).expect("the corpus is writable");
            panic!("case {cases} panicked and is kept in {}", path.display());
        }
        cases += 1;
    }
    println!("{cases} cases");
}

#[test]
fn kept_cases_stay_harmless() {
    let mut cases = 0;
    for entry in fs::read_dir(corpus()).expect("the corpus is committed") {
        check(&fs::read(entry.expect("there").path()).expect("readable"));
        cases += 1;
    }
    assert!(cases >= 5, "{cases} cases are few");
}

#[test]
fn a_good_checksum_does_not_make_a_good_message() {
    assert_eq!(decode(&framed(&[0xff; 9])), Err(FrameError::Message));
    assert_eq!(decode(&framed(&[])), Ok(TraceRow::default()));
}
