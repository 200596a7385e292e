//! What an export may be written to: it takes the place of files and of nothing else.

use std::{
    fs,
    os::unix::fs::{FileTypeExt as _, symlink},
    path::Path,
    process::{Command, Output},
    thread,
};

use admission_svc::{Caps, TraceStore as _};
use proto::v1::TraceRow;

use crate::opened::opened;

fn store(dir: &Path) -> String {
    let folder = dir.join("store");
    let mut disk = opened(&folder, Caps { bytes: 64 << 20, rows: 1_000 });
    disk.append(vec![TraceRow { request_id: "0".repeat(32), ..TraceRow::default() }; 10])
        .expect("taken");
    disk.flush().expect("flushed");
    folder.to_str().expect("text").into()
}

fn export(store: &str, out: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_admission-svc"));
    let output = command.args(["export", "--store", store, "--out"]).arg(out).output();
    output.expect("the binary is built with its tests")
}

#[test]
fn a_link_stays_a_link() {
    let dir = tempfile::tempdir().expect("a directory");
    let (target, link) = (dir.path().join("target"), dir.path().join("link"));
    fs::write(&target, "old").expect("written");
    symlink(&target, &link).expect("linked");
    assert!(export(&store(dir.path()), &link).status.success());
    assert!(fs::symlink_metadata(&link).expect("there").is_symlink());
    assert_eq!(fs::read_to_string(&target).expect("rows").lines().count(), 10);
}

#[test]
fn a_pipe_stays_a_pipe() {
    let dir = tempfile::tempdir().expect("a directory");
    let pipe = dir.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("a tool of every Unix").success());
    let reading = thread::spawn({
        let pipe = pipe.clone();
        move || fs::read_to_string(pipe).expect("rows")
    });
    assert!(export(&store(dir.path()), &pipe).status.success());
    assert_eq!(reading.join().expect("no panic").lines().count(), 10);
    assert!(fs::metadata(&pipe).expect("there").file_type().is_fifo());
}

#[test]
fn a_device_that_is_full_is_no_success_and_no_file() {
    let full = Path::new("/dev/full");
    let is_device = || fs::metadata(full).is_ok_and(|it| it.file_type().is_char_device());
    if !is_device() {
        // Not every Unix has it.
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let output = export(&store(dir.path()), full);
    assert!(!output.status.success());
    assert!(is_device());
}
