//! The real binary and files that are no models: one line that names path and reason, and the exit code of what cannot start.
#![cfg(feature = "llama")]

use std::{
    env, fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::{Command, Output},
};

use tempfile::TempDir;

fn start(model: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_engine-worker"));
    command.args(["--listen", "127.0.0.1:0", "--metrics-listen", "", "--log", "error"]);
    command.arg("--model").arg(model).env_remove("CADENCE_CONFIG").output().expect("it starts")
}

/// The line with which it refuses the file.
fn refusal(model: &Path) -> String {
    let output = start(model);
    let told = String::from_utf8(output.stderr).expect("text");
    // A process that was killed, by its own abort too, has no code.
    assert_eq!(output.status.code(), Some(78), "{told}");
    let line = told.trim_end().to_owned();
    assert!(!line.contains('\n'), "is one line: {line}");
    assert!(line.contains(&model.display().to_string()), "names the path: {line}");
    let parts: Vec<&str> = line.split(": ").collect();
    assert!(parts.windows(2).all(|pair| pair[0] != pair[1]), "says nothing twice: {line}");
    line
}

struct Files(TempDir);

impl Files {
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
}

/// The default model, or the one that CADENCE_TEST_MODEL names.
fn model() -> PathBuf {
    let fetched =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../.cache/models/SmolLM2-135M-Instruct.Q4_1.gguf");
    let path = env::var_os("CADENCE_TEST_MODEL").map_or_else(|| fetched.into(), PathBuf::from);
    assert!(path.is_file(), "{} is missing: run `make model` first", path.display());
    path
}

/// A GGUF file without tensors and with these metadata entries, each a 32-bit number.
fn gguf(keys: &[&str]) -> Vec<u8> {
    let mut file = b"GGUF".to_vec();
    file.extend(3_u32.to_le_bytes());
    file.extend(0_u64.to_le_bytes());
    file.extend((keys.len() as u64).to_le_bytes());
    for key in keys {
        file.extend((key.len() as u64).to_le_bytes());
        file.extend(key.bytes());
        file.extend([4_u32, 7].map(u32::to_le_bytes).concat());
    }
    file.extend([0; 64]);
    file
}

#[test]
fn other_files_are_told_apart() {
    let files = Files::new();
    let notes = files.write("notes.txt", b"buy milk\n");
    let path = notes.display();
    let expected = format!("engine-worker: the model {path} is not usable: it is no GGUF file");
    assert_eq!(refusal(&notes), expected);
    assert!(refusal(&files.write("empty.gguf", b"")).ends_with("it is empty"));
}

#[test]
fn cut_off_models_are_told_by_their_length() {
    let files = Files::new();
    let whole = fs::read(model()).expect("it can be read");
    let kilobyte = refusal(&files.write("1kB.gguf", &whole[..1_000]));
    assert!(kilobyte.contains("cut off") && kilobyte.contains("1000 bytes"), "{kilobyte}");
    for length in [whole.len() / 2, whole.len() - 1] {
        let told = refusal(&files.write("cut.gguf", &whole[..length]));
        let counted = format!("it is cut off: it has {length} of {} bytes", whole.len());
        assert!(told.ends_with(&counted), "{told}");
    }
}

#[test]
fn odd_metadata_is_refused_and_aborts_nothing() {
    let files = Files::new();
    let nameless = refusal(&files.write("nameless.gguf", &gguf(&[""])));
    assert!(nameless.ends_with("it is damaged: a metadata entry has no name"), "{nameless}");
    // These are for llama.cpp to refuse. Its own log may say more above the last line.
    for (name, keys) in [
        ("hollow.gguf", &[][..]),
        ("number.gguf", &["general.architecture"]),
        ("twice.gguf", &["a", "a"]),
    ] {
        let output = start(&files.write(name, &gguf(keys)));
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(78), "{name}: {told}");
        let last = told.trim_end().lines().last().unwrap_or_default();
        assert!(last.starts_with("engine-worker: ") && last.contains(name), "{told}");
    }
}

#[test]
fn what_cannot_be_opened_is_told_in_the_systems_words() {
    let files = Files::new();
    assert!(refusal(&files.path("missing.gguf")).contains("No such file"));
    assert!(refusal(files.0.path()).ends_with("is not a file"));
    let knot = files.path("knot.gguf");
    symlink(&knot, &knot).expect("a link");
    assert!(refusal(&knot).contains("symbolic link"));
    let inside = files.write("plain.gguf", b"x").join("inside.gguf");
    assert!(refusal(&inside).contains("Not a directory"));

    let closed = files.write("closed.gguf", b"GGUF");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).expect("it is ours");
    // Root may read everything.
    if fs::File::open(&closed).is_err() {
        assert!(refusal(&closed).contains("Permission denied"));
    }
}

#[test]
fn a_model_without_a_name_is_asked_for() {
    let absent = Command::new(env!("CARGO_BIN_EXE_engine-worker"))
        .env_remove("CADENCE_CONFIG")
        .env_remove("CADENCE_ENGINE_MODEL")
        .output()
        .expect("it starts");
    for output in [absent, start(Path::new(""))] {
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code().is_some_and(|code| code != 0), "{told}");
        assert!(told.contains("model"), "{told}");
    }
}
