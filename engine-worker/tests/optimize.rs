//! `engine-worker optimize` and what people may give it: one line says what is wrong, and nothing is left behind.
#![cfg(feature = "llama")]

use std::{
    env, fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use tempfile::TempDir;

/// The default model, or the one that CADENCE_TEST_MODEL names.
fn model() -> PathBuf {
    let fetched =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../.cache/models/SmolLM2-135M-Instruct.Q4_1.gguf");
    let path = env::var_os("CADENCE_TEST_MODEL").map_or_else(|| fetched.into(), PathBuf::from);
    assert!(path.is_file(), "{} is missing: run `make model` first", path.display());
    path
}

/// A folder for what is written.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a place for files"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, bytes).expect("room for a file");
        path
    }

    /// Everything in it, files in the making too.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path()).expect("a folder");
        let names =
            entries.map(|it| it.expect("an entry").file_name().to_string_lossy().into_owned());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }
}

fn optimize(model: &Path, out: &Path, more: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_engine-worker"));
    command.args(["optimize", "--windows", "1", "--rounds", "1", "--threads", "1"]);
    command.arg("--model").arg(model).arg("--out").arg(out).args(more).output().expect("it starts")
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).trim_end().to_owned()
}

/// The one line with which it refuses, whatever it said that it does before.
fn refusal(output: &Output) -> String {
    let told = told(output);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(output.stdout.is_empty(), "there is no report: {output:?}");
    let last = told.lines().next_back().unwrap_or_default().to_owned();
    assert!(last.starts_with("engine-worker: "), "{told}");
    assert_eq!(told.matches("engine-worker: ").count(), 1, "is told once: {told}");
    last
}

#[test]
fn what_is_no_model_is_told_and_nothing_is_written() {
    let place = Place::new();
    let out = place.path("out.gguf");
    let whole = fs::read(model()).expect("a file");
    let cut = place.write("cut.gguf", &whole[..whole.len() / 2]);
    let header = place.write("header.gguf", &whole[..100]);
    let notes = place.write("notes.txt", b"buy milk\n");
    let empty = place.write("empty.gguf", b"");
    let before = place.names();
    for (model, wanted) in [
        (place.path("missing.gguf"), "No such file"),
        (place.0.path().to_owned(), "is not a file"),
        (cut, "it is cut off"),
        (header, "it is cut off"),
        (notes, "it is no GGUF file"),
        (empty, "it is empty"),
    ] {
        let refused = refusal(&optimize(&model, &out, &[]));
        assert!(refused.contains(wanted), "{refused}");
        assert!(refused.contains(&model.display().to_string()), "names the path: {refused}");
    }
    assert_eq!(place.names(), before);
}

#[test]
fn files_that_are_there_stay() {
    let place = Place::new();
    let there = place.write("there.gguf", b"dear to somebody");
    let folder = place.path("folder");
    fs::create_dir(&folder).expect("a folder");
    let astray = place.path("astray.gguf");
    symlink(place.path("nowhere"), &astray).expect("a link");
    let own = place.path("own.gguf");
    symlink(model(), &own).expect("a link");
    let before = place.names();
    for (out, more, wanted) in [
        (&there, &[][..], "exists; --force overwrites it"),
        (&there, &["--refresh"], "was not made by this command"),
        (&folder, &["--force"], "is not a file"),
        (&astray, &["--force"], "leads nowhere"),
        (&own, &["--force"], "is the model itself"),
        (&model(), &["--force"], "is the model itself"),
        (&place.path("no/folder.gguf"), &[], "cannot write to the folder"),
        (&there.join("inside.gguf"), &[], "cannot write to the folder"),
    ] {
        let refused = refusal(&optimize(&model(), out, more));
        assert!(refused.contains(wanted), "{refused}");
    }
    let closed = place.path("closed");
    fs::create_dir(&closed).expect("a folder");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o500)).expect("it is ours");
    // Root may write everywhere.
    if fs::write(closed.join("x"), "").is_err() {
        let refused = refusal(&optimize(&model(), &closed.join("out.gguf"), &[]));
        assert!(refused.contains("Permission denied"), "{refused}");
    }
    fs::remove_dir_all(closed).expect("it is ours");
    assert_eq!(place.names(), before);
    assert_eq!(fs::read(there).expect("a file"), b"dear to somebody");
}

#[test]
fn texts_that_do_not_do_are_told() {
    let place = Place::new();
    let out = place.path("out.gguf");
    let empty = place.write("empty.txt", b"");
    let short = place.write("short.txt", b"Once upon a time.");
    let bytes = place.write("bytes.txt", &[0xff; 600]);
    let before = place.names();
    for (text, wanted) in [
        (place.path("missing.txt"), "No such file"),
        (place.0.path().to_owned(), "is not a file"),
        (empty, "has 0 tokens, at least 512 are needed"),
        (short, "has 5 tokens, at least 512 are needed"),
        (bytes, "valid UTF-8"),
    ] {
        let refused =
            refusal(&optimize(&model(), &out, &["--text", text.to_str().expect("UTF-8")]));
        assert!(refused.contains(wanted), "{refused}");
        assert!(refused.contains(&*text.file_name().expect("a name").to_string_lossy()));
    }
    assert_eq!(place.names(), before);
}

#[test]
fn a_wrong_command_line_is_told_what_would_be_right() {
    for (more, wanted) in [
        (&["--type", "q9_9"][..], "possible values: q4_0"),
        (&["--windows", "0"], "--windows"),
        (&["--threads", "0"], "--threads"),
        (&["--force", "--refresh"], "cannot be used with"),
    ] {
        let output = optimize(Path::new("m.gguf"), Path::new("o.gguf"), more);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(told(&output).contains(wanted), "{output:?}");
    }
}

/// A limit on the length of files stands for a full disk: the system says no in the middle of a write.
#[test]
fn a_full_disk_is_one_error_and_leaves_nothing() {
    let place = Place::new();
    let output = Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 40000; exec \"$0\" \"$@\""])
        .arg(env!("CARGO_BIN_EXE_engine-worker"))
        .args(["optimize", "--threads", "1", "--model"])
        .arg(model())
        .arg("--out")
        .arg(place.path("out.gguf"))
        .output()
        .expect("it starts");
    let refused = refusal(&output);
    assert!(refused.contains("cannot write") && refused.contains("File too large"), "{refused}");
    assert_eq!(place.names(), [""; 0]);
}

#[test]
fn a_part_that_nobody_waits_for_ends_and_leaves_nothing() {
    let place = Place::new();
    let part = place.path("part");
    let mut child = Command::new(env!("CARGO_BIN_EXE_engine-worker"))
        .arg("requantize")
        .args([&model(), &part])
        .args(["q8_0", "1"])
        .stdin(Stdio::null())
        .spawn()
        .expect("it starts");
    assert_eq!(child.wait().expect("it ends").code(), Some(1));
    assert_eq!(place.names(), [""; 0]);
}
