//! Whatever lies in the folder, the service starts, serves and counts.

use std::{
    fs,
    path::{Path, PathBuf},
};

use admission_svc::{Caps, TraceStore as _};
use proto::v1::TraceRow;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use crate::{opened::opened, service::Service};

const PLACES: u64 = 30;
const ROWS: u64 = 900;

/// A folder of three databases.
fn folder(path: &Path) {
    let caps = Caps { bytes: 64 << 20, rows: 2_400 };
    let mut disk = opened(path, caps);
    for _ in 0..ROWS / 10 {
        let row = TraceRow { request_id: "0".repeat(32), ..TraceRow::default() };
        disk.append(vec![row; 10]).expect("taken");
        disk.flush().expect("flushed");
    }
    assert_eq!(disk.facts().numbered, ROWS);
}

#[tokio::test]
async fn it_starts_serves_and_counts_after_thirty_kinds_of_damage() {
    let dir = tempfile::tempdir().expect("a directory");
    let good = dir.path().join("good");
    folder(&good);
    let mut lost_somewhere = 0;
    for seed in 0..PLACES {
        let traces = dir.path().join(format!("traces-{seed}"));
        copy(&good, &traces);
        let what = damage(&traces, &mut ChaCha8Rng::seed_from_u64(seed));
        let mut service = Service::start(&traces, &["--trace-flush-ms", "10"]).await;
        service.decide(seed.into()).await;
        let rows = written(&mut service, &what).await;
        let last = rows.last().expect("just written").number;
        assert!(last > ROWS, "{what}: number {last} was given before");
        assert_eq!(service.metric("cadence_admission_trace_on_disk").await, 1, "{what}");
        let lost = service.metric("cadence_admission_trace_lost_total").await;
        let kept = rows.iter().filter(|row| row.number <= ROWS).count() as u64;
        if what.ends_with("/mark") {
            // The count is lost with it, the rows are not.
            assert!(kept + lost <= ROWS, "{what}: {kept} kept, {lost} lost");
        } else {
            assert_eq!(kept + lost, ROWS, "{what}: {kept} kept, {lost} lost");
        }
        lost_somewhere += u64::from(kept < ROWS);
        service.stop().await;
        counted_once(&traces, lost, &what);
        fs::remove_dir_all(&traces).expect("removable");
    }
    assert!(lost_somewhere > 0, "no damage was felt: the test does not test");
}

#[tokio::test]
async fn a_folder_that_cannot_be_made_at_first_is_used_once_it_can() {
    let dir = tempfile::tempdir().expect("a directory");
    let traces = dir.path().join("traces");
    fs::write(&traces, "in its place").expect("writable");
    let mut service = Service::start(&traces, &["--trace-flush-ms", "10"]).await;
    service.decide_all(0..3).await;
    service
        .until("rows are dropped", async |it| {
            it.metric("cadence_admission_trace_dropped_total").await == 3
        })
        .await;
    assert!(!service.is_on_disk().await && service.rows(0).await.is_err());
    fs::remove_file(&traces).expect("there");
    service
        .until("the folder is opened", async |it| {
            // Only a row makes it try.
            it.decide(10).await;
            it.is_on_disk().await
        })
        .await;
    service.flushed(1).await;
    assert!(!service.rows(0).await.expect("rows").is_empty());
    service.stop().await;
}

/// The rows, once the new one is among them. Every export may set one more database aside.
async fn written(service: &mut Service, what: &str) -> Vec<TraceRow> {
    for _ in 0..100 {
        if let Ok(rows) = service.rows(0).await
            && rows.last().is_some_and(|row| row.number > ROWS)
        {
            return rows;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("{what}: the new row does not come\n{}", service.log());
}

fn counted_once(traces: &Path, lost: u64, what: &str) {
    let mut disk = opened(traces, Caps { bytes: 64 << 20, rows: 1 << 40 });
    disk.ready().expect("the service has mended it");
    assert_eq!(disk.facts().lost, lost, "{what}");
}

/// One fault: bytes flipped, the end cut off, a page of zeros, or a file gone.
fn damage(folder: &Path, rng: &mut ChaCha8Rng) -> String {
    let mut files = files(folder);
    files.sort();
    let path = &files[rng.random_range(0..files.len())];
    let mut bytes = fs::read(path).expect("there");
    let length = bytes.len().max(1);
    let at = rng.random_range(0..length);
    let kind = rng.random_range(0..4);
    match kind {
        0 => (0..8).for_each(|_| {
            if let Some(byte) = bytes.get_mut(rng.random_range(0..length)) {
                *byte ^= 1 << rng.random_range(0..8);
            }
        }),
        1 => bytes.truncate(at),
        2 => bytes.iter_mut().skip(at).take(4_096).for_each(|byte| *byte = 0),
        _ => {}
    }
    if kind == 3 {
        fs::remove_file(path).expect("there");
    } else {
        fs::write(path, bytes).expect("writable");
    }
    format!("fault {kind} at {at} of {length} in {}", path.display())
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("there").path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("room");
    for entry in fs::read_dir(from).expect("a folder") {
        let path = entry.expect("there").path();
        let target = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(&path, target).expect("room");
        }
    }
}
