//! Ladders over `loadgen stub`, from the plan to the document.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up fails where it stands")]

mod support;

use std::{
    fs,
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use support::{Bench, Outcome, files};

const STACK: &str = r#"
[[process]]
name = "server"
program = "loadgen"
args = ["stub", "--port", "{server.port}"]
ready = "/ready"
"#;

const PLAN: &str = r#"
name = "small"
stack = "stack.toml"
rates = [20, 40]
seeds = [1]
duration_s = 1
drain_s = 2
slo = "e2e:500"
workload = "scaled"
probe = { times = 1, prompt_tokens = 16, answer_tokens = 4 }

[settings.server]
service_ms = 40

[[rung]]
name = "one"
title = "one place"
adds = "the baseline"

[[rung]]
name = "two"
title = "two places"
adds = "a second place"
settings.server = { concurrency = 2 }

[[replicate]]
rung = "two"
rate = 20
seed = 1
times = 1
"#;

const PATIENCE: Duration = Duration::from_secs(120);

/// Arguments of a ladder whose cells may well be invalid on a busy machine.
const LADDER: [&str; 6] = ["ladder", "plan.toml", "--out", "out", "--attempts", "20"];

fn bench(plan: &str) -> Bench {
    let bench = Bench::new();
    fs::write(bench.path("stack.toml"), STACK).unwrap();
    fs::write(bench.path("plan.toml"), plan).unwrap();
    bench
}

fn ladder(bench: &Bench) -> Outcome {
    bench.loadgen(&LADDER)
}

fn cells(bench: &Bench) -> Vec<String> {
    files(&bench.path("out/cells"))
}

fn eventually(what: &str, holds: impl Fn() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < until, "never: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Where the server of a cell listens, by its log.
fn server(log: &Path) -> Option<String> {
    let text = fs::read_to_string(log).ok()?;
    Some(text.lines().next()?.split("http://").nth(1)?.to_owned())
}

/// A ladder that stands in the middle of its second cell, after whose first nothing was lost.
fn in_the_middle(bench: &Bench) -> (Child, PathBuf) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loadgen"));
    command.args(LADDER).current_dir(bench.path("")).stdout(Stdio::null()).stderr(Stdio::null());
    let child = command.spawn().unwrap();
    let journal = bench.path("out/cells/20rps-two-s1.parquet.journal");
    eventually("a second cell", || journal.exists());
    (child, bench.path("out/logs/20rps-two-s1/server.log"))
}

const ALL: [&str; 5] = [
    "20rps-one-s1.parquet",
    "20rps-two-s1-x1.parquet",
    "20rps-two-s1.parquet",
    "40rps-one-s1.parquet",
    "40rps-two-s1.parquet",
];

#[test]
fn a_killed_ladder_leaves_nothing_behind_and_goes_on_where_it_was() {
    let bench = bench(&PLAN.replace("duration_s = 1", "duration_s = 2"));
    let (mut child, log) = in_the_middle(&bench);
    let first = fs::read(bench.path("out/cells/20rps-one-s1.parquet")).unwrap();
    let address = server(&log).expect("a server");
    child.kill().unwrap();
    child.wait().unwrap();
    eventually("the server is gone", || TcpStream::connect(&address).is_err());

    let done = ladder(&bench);
    assert_eq!(done.code, Some(0), "{}{}", done.stdout, done.stderr);
    assert!(done.stdout.contains("1 of 5 cells are there, 4 to go"), "{}", done.stdout);
    assert_eq!(cells(&bench), ALL);
    assert!(fs::read(bench.path("out/cells/20rps-one-s1.parquet")).unwrap() == first);
    assert!(!bench.path("out/logs").exists(), "logs are for cells that failed");
    let again = ladder(&bench);
    assert!(again.stdout.contains("0 to go"), "{}", again.stdout);
}

#[test]
fn an_interrupted_ladder_keeps_whole_cells_only() {
    let bench = bench(&PLAN.replace("duration_s = 1", "duration_s = 3"));
    let (mut child, log) = in_the_middle(&bench);
    let address = server(&log).expect("a server");
    kill(Pid::from_raw(child.id().try_into().unwrap()), Signal::SIGINT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(TcpStream::connect(address).is_err(), "the server outlived the ladder");
    assert_eq!(cells(&bench), ["20rps-one-s1.parquet"]);
    assert!(!bench.path("out/logs").exists());
}

#[test]
fn a_cell_that_fails_is_written_down_and_the_others_are_measured() {
    let plan =
        PLAN.replace("settings.server = { concurrency = 2 }", "settings.server = { tokens = 0 }");
    let bench = bench(&plan);
    let done = bench.loadgen(&["ladder", "plan.toml", "--out", "out", "--attempts", "1"]);
    assert_eq!(done.code, Some(1));
    assert!(done.stdout.contains("20rps-two-s1: FAILED: server ended"), "{}", done.stdout);
    assert_eq!(cells(&bench), ALL, "what failed is written down too");
    let log = bench.path("out/logs/40rps-two-s1/server.log");
    assert!(fs::read_to_string(log).unwrap().contains("0 is not in 1..=100000"));
    let report = bench.loadgen(&["report", "out"]);
    assert!(report.stdout.contains("### Cells that say nothing"), "{}", report.stdout);
    assert!(report.stdout.contains("| two at 40 rps, seed 1 | failed: server ended"));
    // What failed is tried again, and only that.
    let again = bench.loadgen(&["ladder", "plan.toml", "--out", "out", "--attempts", "1"]);
    assert!(again.stdout.contains("of 5 cells are there"), "{}", again.stdout);
}

#[test]
fn ladders_are_not_mixed() {
    let bench = bench(PLAN);
    let done = bench.loadgen(&LADDER);
    assert_eq!(done.code, Some(0), "{}{}", done.stdout, done.stderr);
    fs::write(bench.path("plan.toml"), PLAN.replace("drain_s = 2", "drain_s = 3")).unwrap();
    let changed = ladder(&bench);
    assert_eq!(changed.code, Some(1));
    assert!(changed.stderr.contains("cells of another plan"), "{}", changed.stderr);
    fs::write(bench.path("plan.toml"), PLAN).unwrap();
    fs::write(
        bench.path("stack.toml"),
        STACK.replace("\"stub\",", "\"stub\", \"--tokens\", \"3\","),
    )
    .unwrap();
    let changed = ladder(&bench);
    assert!(changed.stderr.contains("measured on something else (stack "), "{}", changed.stderr);
}

#[test]
fn what_cannot_be_is_refused_before_anything_starts() {
    let refused = |plan: &str, wanted: &str| {
        let bench = bench(plan);
        let done = ladder(&bench);
        assert_eq!(done.code, Some(1), "{wanted}");
        assert!(done.stderr.contains(wanted), "{:?} does not say {wanted:?}", done.stderr);
        assert!(!bench.path("out").exists());
    };
    refused(&PLAN.replace("seeds = [1]", "sedes = [1]"), "unknown field `sedes`");
    refused(
        &PLAN.replace("[settings.server]", "[settings.servant]"),
        "settings.servant: the stack",
    );
    refused(&PLAN.replace("stack.toml", "stick.toml"), "stack: cannot read stick.toml");
    refused(
        &PLAN.replace("name = \"small\"", "name = \"small\"\nmodel = \"no.gguf\""),
        "model: there is no file",
    );
}

#[test]
fn cells_can_be_listed_in_order() {
    let bench = bench(PLAN);
    let listed = bench.loadgen(&["ladder", "plan.toml", "--list"]);
    let order = ["20rps-one-s1", "20rps-two-s1", "40rps-two-s1", "40rps-one-s1", "20rps-two-s1-x1"];
    assert_eq!(listed.stdout.lines().collect::<Vec<_>>(), order);
}

#[test]
fn a_document_is_what_the_data_say() {
    let bench = bench(PLAN);
    let done = ladder(&bench);
    assert_eq!(done.code, Some(0), "{}{}", done.stdout, done.stderr);
    fs::write(bench.path("doc.md"), "# Results\n").unwrap();
    let embed = ["report", "out", "--embed", "doc.md"];
    let check = [&embed[..], &["--check"]].concat();
    assert_eq!(bench.loadgen(&check).code, Some(1), "nothing is there yet");
    let done = bench.loadgen(&embed);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let text = fs::read_to_string(bench.path("doc.md")).unwrap();
    for wanted in [
        "# Results\n\n<!-- ladder small: generated",
        "![Goodput: within e2e:500](figures/small-goodput.svg)",
        "### Peak goodput",
        "| two places | one place | 20 |",
        "### Noise floor",
        "two places at 20 rps, 2 times",
        "### The machine meanwhile",
        "| all | 5 |",
    ] {
        assert!(text.contains(wanted), "{wanted:?} is not in\n{text}");
    }
    let figures = ["small-e2e-p99", "small-goodput", "small-latency-over-time"];
    let figures: Vec<_> =
        figures.iter().flat_map(|it| [format!("{it}.png"), format!("{it}.svg")]).collect();
    assert_eq!(files(&bench.path("figures")), figures);
    assert_eq!(bench.loadgen(&check).code, Some(0), "made twice, it is the same");
    fs::write(bench.path("doc.md"), text.replacen("| all | 5 |", "| all | 6 |", 1)).unwrap();
    let differs = bench.loadgen(&check);
    assert_eq!(differs.code, Some(1));
    assert!(differs.stderr.contains("is not what the data say"), "{}", differs.stderr);
}
