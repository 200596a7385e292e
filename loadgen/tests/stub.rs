//! The generator against a server whose behaviour is known.

mod support;

use std::process::{Child, Command};

use support::{Bench, Outcome, Server, Stub};

fn medians(done: &Outcome) -> Vec<f64> {
    let windows = done.summary["windows"].as_array().expect("windows");
    windows.iter().map(|window| window["e2e_ms"]["p50"].as_f64().expect("answers")).collect()
}

fn run(bench: &Bench, stub: &Stub, rate: &str, secs: &str) -> Outcome {
    let args = [
        "run",
        "--url",
        &stub.url,
        "--rate",
        rate,
        "--duration",
        secs,
        "--workload",
        "scaled",
        "--out",
        "run.parquet",
        "--json",
        "summary.json",
        "--overwrite",
    ];
    bench.loadgen(&args)
}

#[test]
fn twice_the_capacity_falls_behind_window_by_window() {
    let bench = Bench::new();
    // 40 a second, offered 80: in the last of 4 s a request waits for about 3.5 s.
    let stub = bench.stub(&["--service-ms", "25"]);
    let done = run(&bench, &stub, "80", "4");
    let medians = medians(&done);
    assert!(medians.windows(2).all(|pair| pair[1] > pair[0]), "{medians:?}");
    assert!(medians[3] > 2_000.0, "{medians:?}");
    let completed = done.summary["completed_rps"].as_f64().unwrap();
    assert!(completed <= 41.0, "{completed}");
}

#[test]
fn a_quarter_of_the_capacity_hardly_queues() {
    let bench = Bench::new();
    let stub = bench.stub(&["--service-ms", "25"]);
    let done = run(&bench, &stub, "10", "4");
    let p50 = done.summary["e2e_ms"]["p50"].as_f64().unwrap();
    assert!((25.0..500.0).contains(&p50), "{p50}");
}

#[test]
fn a_trace_is_replayed_as_it_is() {
    let bench = Bench::new();
    let stub = bench.stub(&["--service-ms", "1", "--tokens", "2"]);
    let trace = r#"{"time": 100.0, "prompt": "one", "max_tokens": 2}
{"time": 100.5, "prompt_tokens": 40, "max_tokens": 7}
{"time": 102.0, "messages": [{"role": "user", "content": "three"}], "max_tokens": 9}"#;
    std::fs::write(bench.path("trace.jsonl"), trace).unwrap();
    let done = bench.loadgen(&[
        "run",
        "--url",
        &stub.url,
        "--replay",
        "trace.jsonl",
        "--speed",
        "10",
        "--out",
        "run.parquet",
        "--json",
        "summary.json",
    ]);
    assert_eq!(done.classes()["ok"], 3, "{}", done.stderr);
    // Three requests in 0.2 s, and a gap of 0.1 s after the last.
    assert!((done.summary["window_s"].as_f64().unwrap() - 0.3).abs() < 0.001);
}

fn drain_check(bench: &Bench, stub: &Stub, more: &[&str]) -> Outcome {
    let pid = stub.child.id().to_string();
    let args = [&["drain-check", "--url", &stub.url, "--pid", &pid, "--within", "20"], more];
    bench.loadgen(&args.concat())
}

fn code(child: &mut Child) -> Option<i32> {
    child.wait().expect("a child that nobody else waits for").code()
}

#[test]
fn a_server_that_drains_passes_and_one_that_dies_does_not() {
    let bench = Bench::new();
    let slow = ["--service-ms", "3000", "--concurrency", "0", "--tokens", "30"];
    let mut stub = bench.stub(&slow);
    let done = drain_check(&bench, &stub, &[]);
    assert_eq!(done.code, Some(0), "{}{}", done.stdout, done.stderr);
    assert!(done.stdout.contains("ok   4 streams were in flight"), "{}", done.stdout);
    assert!(done.stdout.contains("turned away, with Retry-After"), "{}", done.stdout);
    assert_eq!(code(&mut stub.child), Some(0));

    let stub = bench.stub(&[&slow[..], &["--on-term", "die"]].concat());
    let done = drain_check(&bench, &stub, &[]);
    assert_eq!(done.code, Some(1), "{}", done.stdout);
    assert!(done.stdout.contains("FAIL 0 streams ended whole"), "{}", done.stdout);
}

#[test]
fn a_drain_with_nothing_in_flight_shows_nothing() {
    let bench = Bench::new();
    let stub = bench.stub(&["--service-ms", "0", "--concurrency", "0", "--tokens", "1"]);
    let done = drain_check(&bench, &stub, &["--streams", "1"]);
    assert_eq!(done.code, Some(1));
    assert!(done.stdout.contains("FAIL 0 streams were in flight"), "{}", done.stdout);
}

#[test]
fn a_server_that_never_answers_fails_a_drain_in_time() {
    let bench = Bench::new();
    let server = Server::new(|stream| while support::read_request(stream) {});
    let mut process = Command::new("sleep").arg("60").spawn().expect("every system has it");
    let pid = process.id().to_string();
    let args = ["drain-check", "--url", &server.url(), "--model", "m", "--within", "1"];
    let done = bench.loadgen(&[&args[..], &["--pid", &pid]].concat());
    assert_eq!(done.code, Some(1), "{}", done.stderr);
    assert!(done.stdout.contains("FAIL 0 streams were in flight"), "{}", done.stdout);
    process.wait().expect("it had SIGTERM");
}

#[test]
fn a_drain_signals_one_process_and_never_a_group() {
    let bench = Bench::new();
    for no_process in ["--pid=0", "--pid=-1"] {
        let done = bench.loadgen(&["drain-check", "--url", "http://127.0.0.1:1", no_process]);
        assert_eq!(done.code, Some(2), "{}", done.stderr);
    }
}

#[test]
fn a_server_is_calibrated() {
    let bench = Bench::new();
    let stub = bench.stub(&["--service-ms", "40", "--concurrency", "0", "--tokens", "4"]);
    let args = ["calibrate", "--url", &stub.url, "--samples", "2", "--decode-tokens", "8"];
    let done = bench.loadgen(&[&args[..], &["--out", "summary.json"]].concat());
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let decode = &done.summary["found"]["decode"];
    // Four tokens in 40 ms are 100 a second and stream.
    let rate = |at: usize| decode[at]["tokens_per_s"].as_f64().unwrap();
    assert!((5.0..=110.0).contains(&rate(0)), "{decode}");
    assert!(rate(3) > 2.0 * rate(0), "{decode}");
    assert_eq!(done.summary["advice"]["rates"].as_array().map(Vec::len), Some(7));
}

#[test]
fn validate_finds_its_own_arrivals_sound() {
    let done = Bench::new().loadgen(&["validate"]);
    assert_eq!(done.code, Some(0));
    assert!(done.stdout.contains("the arrivals are sound"), "{}", done.stdout);
}
