//! What a run leaves, however it ends.

mod support;

use std::{
    fs,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use support::{Bench, GOOD, SSE, Server, files, run_args};

fn good() -> Server {
    Server::saying(format!("{SSE}{GOOD}"))
}

/// Waits until a run has written some rows.
fn wait_for_rows(journal: &std::path::Path, rows: usize) {
    let until = Instant::now() + Duration::from_secs(60);
    while fs::read_to_string(journal).unwrap_or_default().lines().count() < rows + 1 {
        assert!(Instant::now() < until, "no rows");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_whole_run_leaves_one_file_that_can_be_reported() {
    let (bench, server) = (Bench::new(), good());
    let done = bench.run(&server.url(), &["--vllm-json", "vllm.json"]);
    assert!(done.has_run(), "{}", done.stderr);
    let folder = bench.path("");
    assert_eq!(files(&folder), ["run.parquet", "summary.json", "vllm.json"]);
    let vllm: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(bench.path("vllm.json")).unwrap()).unwrap();
    assert_eq!((vllm["completed"].as_u64(), vllm["num_prompts"].as_u64()), (Some(10), Some(10)));
    assert_eq!(vllm["itls"][0].as_array().map(Vec::len), Some(2));
    assert!(vllm["mean_ttft_ms"].as_f64() > Some(0.0));
    let report = bench.loadgen(&["report", "run.parquet", "--out", "report"]);
    assert_eq!(report.code, Some(0), "{}", report.stderr);
    let names = files(&bench.path("report"));
    for figure in ["latency-over-time", "ttft", "e2e", "goodput", "admitted-over-time"] {
        for end in ["svg", "png"] {
            assert!(names.contains(&format!("{figure}.{end}")), "{names:?}");
        }
    }
}

#[test]
fn nothing_is_written_over_unasked() {
    let (bench, server) = (Bench::new(), good());
    fs::write(bench.path("run.parquet"), "precious").unwrap();
    let done = bench.run(&server.url(), &[]);
    assert_eq!(done.code, Some(1));
    assert!(done.stderr.contains("--overwrite"), "{}", done.stderr);
    assert_eq!(fs::read_to_string(bench.path("run.parquet")).unwrap(), "precious");
    assert!(bench.run(&server.url(), &["--overwrite"]).has_run());
}

#[test]
fn an_output_that_cannot_be_written_is_known_before_the_first_request() {
    let (bench, server) = (Bench::new(), good());
    let args = ["run", "--url", &server.url(), "--model", "m", "--out", "missing/run.parquet"];
    let done = bench.loadgen(&args);
    assert_eq!(done.code, Some(1));
    assert!(done.stderr.contains("cannot write missing/run.parquet"), "{}", done.stderr);
    assert_eq!(server.connections(), 0);
}

#[test]
fn an_interrupted_run_leaves_a_valid_file_that_says_so() {
    let (bench, server) = (Bench::new(), good());
    let url = server.url();
    let child = bench.command(&run_args(&url, &["--duration", "60"])).spawn().unwrap();
    wait_for_rows(&bench.path("run.parquet.journal"), 5);
    let pid = Pid::from_raw(child.id().try_into().unwrap());
    kill(pid, Signal::SIGINT).unwrap();
    let done = bench.outcome(child.wait_with_output().unwrap());
    assert_eq!(done.code, Some(130), "{}", done.stderr);
    assert!(done.stdout.contains("PARTIAL"), "{}", done.stdout);
    assert_eq!(done.summary["complete"], false);
    assert!(done.classes()["ok"] >= 5);
    let report = bench.loadgen(&["report", "run.parquet"]);
    assert!(report.stdout.contains("PARTIAL"), "{}", report.stdout);
}

#[test]
fn what_is_in_flight_at_an_interrupt_is_written_down_too() {
    let bench = Bench::new();
    let server = Server::new(|stream| while support::read_request(stream) {});
    let url = server.url();
    let child = bench.command(&run_args(&url, &["--duration", "60"])).spawn().unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    while server.connections() < 5 {
        assert!(Instant::now() < until, "no requests");
        thread::sleep(Duration::from_millis(20));
    }
    kill(Pid::from_raw(child.id().try_into().unwrap()), Signal::SIGTERM).unwrap();
    let done = bench.outcome(child.wait_with_output().unwrap());
    assert_eq!(done.code, Some(130));
    assert!(done.classes()["interrupted"] >= 5, "{:?}", done.classes());
}

#[test]
fn a_killed_run_can_be_recovered() {
    let (bench, server) = (Bench::new(), good());
    let url = server.url();
    let mut child = bench.command(&run_args(&url, &["--duration", "60"])).spawn().unwrap();
    let journal = bench.path("run.parquet.journal");
    wait_for_rows(&journal, 5);
    child.kill().unwrap();
    child.wait().unwrap();
    // As if it had been killed in the middle of a line.
    let bytes = fs::read(&journal).unwrap();
    fs::write(&journal, &bytes[..bytes.len() - 7]).unwrap();
    let done = bench.loadgen(&["recover", "run.parquet.journal", "--out", "run.parquet"]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let report = bench.loadgen(&["report", "run.parquet"]);
    assert!(report.stdout.contains("PARTIAL"), "{}", report.stdout);
}

#[test]
fn a_full_disk_keeps_what_was_written() {
    let (bench, server) = (Bench::new(), good());
    // Files of at most 4 KiB stand for a disk without room.
    let mut command = Command::new("prlimit");
    command.arg("--fsize=4096").arg(env!("CARGO_BIN_EXE_loadgen"));
    command.args(run_args(&server.url(), &["--rate", "100"])).current_dir(bench.path(""));
    let Ok(output) = command.output() else {
        eprintln!("skipped: no prlimit here");
        return;
    };
    let done = bench.outcome(output);
    assert_eq!(done.code, Some(1), "{}", done.stderr);
    assert!(done.stderr.contains("rows stay in memory"), "{}", done.stderr);
    assert!(done.stderr.contains("loadgen recover"), "{}", done.stderr);
    assert_eq!(files(&bench.path("")), ["run.parquet.journal"]);
    let done = bench.loadgen(&["recover", "run.parquet.journal", "--out", "run.parquet"]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
}

#[test]
fn secrets_are_not_written() {
    let (bench, server) = (Bench::new(), good());
    let more = ["--api-key", "sk-secret", "-H", "x-tenant: secret-tenant", "--header=a: secret-a"];
    assert!(bench.run(&server.url(), &more).has_run());
    let bytes = fs::read(bench.path("run.parquet")).unwrap();
    let text = String::from_utf8_lossy(&bytes);
    assert!(!text.contains("secret"), "a secret is in the file");
}
