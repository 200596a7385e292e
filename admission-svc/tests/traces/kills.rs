//! `kill -9` under writes.

use std::time::Duration;

use admission_svc::{Caps, TraceStore as _};
use proto::v1;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use crate::{opened::opened, service::Service};

const KILLS: u32 = 20;

#[tokio::test]
async fn what_was_flushed_survives_twenty_kills_under_writes() {
    let dir = tempfile::tempdir().expect("a directory");
    let traces = dir.path().join("traces");
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let (mut next, mut flushed, mut safe) = (0_u128, 0, Vec::new());
    for _ in 0..KILLS {
        let mut service = Service::start(&traces, &["--trace-flush-ms", "20"]).await;
        assert_eq!(missing(&mut service, &safe).await, [0; 0], "flushed rows are gone");
        service.decide_all(next..next + 40).await;
        flushed = service.flushed(flushed + 20).await;
        let rows = service.rows(0).await.expect("rows");
        safe = rows.iter().map(|row| row.number).filter(|number| *number <= flushed).collect();
        // In the middle of writing.
        let mut client = service.client.clone();
        let writing = tokio::spawn(async move {
            for number in next + 40.. {
                let wire = v1::DecideRequest {
                    request_id: format!("{number:032x}"),
                    candidates: vec![v1::Candidate {
                        engine_instance: "e".into(),
                        ..Default::default()
                    }],
                    prompt_tokens: 1,
                    max_tokens: 1,
                    ..Default::default()
                };
                if client.decide(wire).await.is_err() {
                    return;
                }
            }
        });
        tokio::time::sleep(Duration::from_millis(rng.random_range(0..60))).await;
        service.kill();
        writing.await.expect("no panic");
        next += 100_000;
    }
    every_number_is_a_row_or_a_loss(&traces, &safe);
}

/// The safe numbers that cannot be read.
async fn missing(service: &mut Service, safe: &[u64]) -> Vec<u64> {
    let rows = service.rows(0).await.expect("rows");
    let there: std::collections::BTreeSet<_> = rows.iter().map(|row| row.number).collect();
    assert_eq!(there.len(), rows.len(), "a number was given twice");
    safe.iter().copied().filter(|number| !there.contains(number)).collect()
}

fn every_number_is_a_row_or_a_loss(traces: &std::path::Path, safe: &[u64]) {
    let caps = Caps { bytes: 256 << 20, rows: 1_000_000 };
    let mut lost = Vec::new();
    for _ in 0..2 {
        let mut disk = opened(traces, caps);
        disk.ready().expect("readable");
        let (mut rows, mut after) = (0, Some(0));
        while let Some(from) = after {
            let page = disk.page(from, 1_000).expect("readable");
            (rows, after) = (rows + page.rows.len() as u64, page.next);
        }
        let facts = disk.facts();
        assert!(rows >= safe.len() as u64);
        assert_eq!(rows + facts.lost, facts.numbered, "{facts:?}");
        lost.push(facts.lost);
    }
    assert_eq!(lost[0], lost[1], "counted once");
}
