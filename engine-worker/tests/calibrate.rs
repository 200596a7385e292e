//! `engine-worker calibrate` on the real default model: what it writes is used at the next start.
#![cfg(feature = "llama")]

use std::{
    env, fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
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

fn worker() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_engine-worker"));
    command.env_remove("CADENCE_CONFIG");
    command
}

fn calibrate(model: &Path, dir: &Path, args: &[&str]) -> Output {
    let mut command = worker();
    command.arg("calibrate").arg("--model").arg(model).arg("--dir").arg(dir);
    command.args(args).output().expect("it starts")
}

/// A worker that serves nobody, until it is dropped.
struct Serving(Child);

impl Serving {
    /// Starts it and reads its log up to the line that says what steps cost, that line last.
    fn start(model: &Path, dir: &Path, args: &[&str]) -> (Self, Vec<String>) {
        let mut command = worker();
        command.args(["--listen", "127.0.0.1:0", "--metrics-listen", ""]).args(args);
        command.arg("--model").arg(model).arg("--calibration-dir").arg(dir);
        Self::read(&mut command)
    }

    fn mock(args: &[&str]) -> (Self, Vec<String>) {
        let mut command = worker();
        command.args(["--backend", "mock", "--listen", "127.0.0.1:0", "--metrics-listen", ""]);
        Self::read(command.args(args))
    }

    fn read(command: &mut Command) -> (Self, Vec<String>) {
        let mut child = command.stderr(Stdio::piped()).spawn().expect("it starts");
        let log = BufReader::new(child.stderr.take().expect("piped"));
        let mut lines = Vec::new();
        for line in log.lines().map_while(Result::ok) {
            let last = line.contains("step cost");
            lines.push(line);
            if last {
                break;
            }
        }
        (Self(child), lines)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn files(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir(dir).expect("readable").map(|it| it.expect("an entry").path()).collect()
}

#[test]
fn what_was_calibrated_is_used_at_the_next_start() {
    let (dir, model) = (TempDir::new().expect("a place"), model());
    let few = ["--slots", "2", "--threads", "1", "--layout", "streams", "--seconds", "8"];
    let output = calibrate(&model, dir.path(), &few);
    let told = String::from_utf8(output.stdout).expect("text");
    let progress = String::from_utf8(output.stderr).expect("text");
    assert!(output.status.success(), "{progress}");
    assert!(told.contains("| streams | 1 |") && told.contains("picked"), "{told}");
    assert!(told.contains("| all | "), "says how far off it is: {told}");
    assert!(progress.contains("measuring streams with 1 threads"), "{progress}");
    let written = files(dir.path());
    assert_eq!(written.len(), 1, "{written:?}");

    let (_worker, log) = Serving::start(&model, dir.path(), &["--slots", "2"]);
    let last = log.last().expect("a line");
    assert!(last.contains("Calibrated"), "{log:#?}");
    assert!(log.iter().any(|line| line.contains("threads=1")), "what was picked: {log:#?}");

    // What is set contradicts it.
    let (_worker, log) =
        Serving::start(&model, dir.path(), &["--slots", "2", "--layout", "unified"]);
    assert!(log.last().expect("a line").contains("Measured"), "{log:#?}");

    // The mock is as slow as the model was.
    let file = written[0].to_str().expect("text");
    let (_mock, log) = Serving::mock(&["--cost-model", file]);
    assert!(log.last().expect("a line").contains("MockCalibrated"), "{log:#?}");

    fs::write(&written[0], "{}").expect("written");
    let (_worker, log) = Serving::start(&model, dir.path(), &["--slots", "2", "--threads", "1"]);
    let warned: Vec<_> = log.iter().filter(|line| line.contains("is not used")).collect();
    assert!(warned.len() == 1 && warned[0].contains(file), "one warning: {log:#?}");
    assert!(log.last().expect("a line").contains("Measured"), "{log:#?}");
}

#[test]
fn what_cannot_be_done_is_said_at_once() {
    let (dir, model) = (TempDir::new().expect("a place"), model());
    let file = dir.path().join("file");
    fs::write(&file, "not a model").expect("written");
    for (model, place, args, told) in [
        (Path::new("nothing.gguf"), dir.path(), &[][..], "nothing.gguf"),
        (&*file, dir.path(), &[], "not usable"),
        (&*model, &*file, &[], "cannot write to"),
        (&*model, dir.path(), &["--slots", "300"], "slots: at most"),
    ] {
        let output = calibrate(model, place, args);
        let error = String::from_utf8(output.stderr).expect("text");
        assert_eq!(output.status.code(), Some(78), "{error}");
        assert!(error.contains(told) && error.lines().count() == 1, "{told}: {error}");
    }
    let wrong = calibrate(&model, dir.path(), &["--layout", "heaps"]);
    assert_eq!(wrong.status.code(), Some(2));
    let (_, log) = Serving::mock(&["--cost-model", file.to_str().expect("text")]);
    assert!(
        log.len() == 1 && log[0].contains("cost_model: ") && log[0].contains("not a calibration"),
        "{log:?}"
    );
}
