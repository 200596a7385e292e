//! A disk without room never stops serving, and writing goes on by itself when there is room.

use std::{
    fs::{self, File},
    io::Write as _,
    path::{Path, PathBuf},
    process::Command,
};

use crate::service::Service;

/// A small disk.
struct Mount(PathBuf);

impl Mount {
    /// `None` where it is not allowed.
    fn new(path: PathBuf) -> Option<Self> {
        fs::create_dir_all(&path).expect("a directory");
        let mut mount = Command::new("mount");
        let done = mount.args(["-t", "tmpfs", "-o", "size=16m", "tmpfs"]).arg(&path).status();
        done.is_ok_and(|status| status.success()).then_some(Self(path))
    }

    /// Leaves not one byte.
    fn fill(&self) -> PathBuf {
        let path = self.0.join("filler");
        let mut file = File::create(&path).expect("a file");
        for size in [1 << 16, 4_096, 1] {
            while file.write_all(&vec![0; size]).is_ok() {}
        }
        path
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// `eprintln!` is kept from sight for a test that passes.
fn skipped() {
    let _ = writeln!(
        std::io::stderr(),
        "SKIPPED: no tmpfs can be mounted here, so no disk can be filled"
    );
}

async fn dropped(service: &Service) -> u64 {
    service.metric("cadence_admission_trace_dropped_total").await
}

async fn stored(service: &Service) -> u64 {
    service.metric("cadence_admission_trace_rows_total").await
}

fn traces(mount: &Mount) -> PathBuf {
    mount.0.join("traces")
}

#[tokio::test]
async fn a_full_disk_stops_nobody_and_is_written_again_when_there_is_room() {
    let dir = tempfile::tempdir().expect("a directory");
    let Some(mount) = Mount::new(dir.path().join("disk")) else {
        skipped();
        return;
    };
    let mut service = Service::start(&traces(&mount), &["--trace-flush-ms", "10"]).await;
    service.decide_all(0..20).await;
    service.flushed(20).await;
    for outage in 1..3_u128 {
        let filler = mount.fill();
        let (before, mut next) = (dropped(&service).await, outage * 1_000_000);
        while dropped(&service).await < before + 10 {
            service.decide_all(next..next + 50).await;
            next += 50;
            assert!(next < outage * 1_000_000 + 100_000, "nothing is dropped\n{}", service.log());
        }
        fs::remove_file(filler).expect("there");
        let stored_before = stored(&service).await;
        for _ in 0..200 {
            service.decide_all(next..next + 5).await;
            next += 5;
            if stored(&service).await > stored_before {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        assert!(stored(&service).await > stored_before, "it stays silent\n{}", service.log());
    }
    let rows = service.rows(0).await.expect("rows");
    assert!(rows.iter().any(|row| row.number == 20), "flushed before the disk was full");
    let lost = service.metric("cadence_admission_trace_lost_total").await;
    assert_eq!(rows.len() as u64 + lost, rows.last().expect("rows").number);
    let told = service.log().matches("traces are not written").count();
    assert!(told <= 4, "an outage is told once, not {told} times\n{}", service.log());
    service.stop().await;
}

#[tokio::test]
async fn a_disk_that_is_full_at_the_start_stops_nobody() {
    let dir = tempfile::tempdir().expect("a directory");
    let Some(mount) = Mount::new(dir.path().join("disk")) else {
        skipped();
        return;
    };
    fs::create_dir(traces(&mount)).expect("room");
    // Its log lies beside the traces: give it a file first.
    File::create(Path::new(&traces(&mount)).with_extension("log")).expect("room");
    let filler = mount.fill();
    let mut service = Service::start(&traces(&mount), &["--trace-flush-ms", "10"]).await;
    service.decide_all(0..20).await;
    assert!(stored(&service).await == 0);
    fs::remove_file(filler).expect("there");
    for number in 20..400 {
        service.decide(number).await;
        if stored(&service).await > 0 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert!(stored(&service).await > 0, "it stays silent\n{}", service.log());
    service.stop().await;
}
