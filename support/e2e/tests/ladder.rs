//! A ladder over the real processes, and the plans that ship with the load generator.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use e2e::Process;

const PATIENCE: Duration = Duration::from_secs(300);

const PLAN: &str = r#"
name = "small"
stack = "STACK"
rates = [4]
seeds = [1]
duration_s = 3
drain_s = 20
slo = "e2e:4000"
workload = "scaled"
probe = { times = 2, prompt_tokens = 32, answer_tokens = 8 }

[settings.engine]
backend = "mock"
mock_decode_us = 500
mock_prefill_us = 20
mock_answer_tokens = 32

[settings.admission]
policy = "off"

[[rung]]
name = "fifo"
title = "one at a time"
settings.engine = { scheduler = "fifo", kv_core = "contiguous" }

[[rung]]
name = "cached"
title = "with a prefix cache"

[[rung]]
name = "limit"
title = "with a limit"
settings.admission = { policy = "limit", limit_requests = 1, patience_ms = 0 }
"#;

fn plans() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../loadgen/plans")
}

/// Runs `loadgen` to its end.
fn loadgen(folder: &Path, label: &str, args: &[String]) {
    let mut process = Process::start("loadgen", label, args, folder);
    let status = process.wait(PATIENCE);
    assert!(status.success(), "{args:?}: {status}\n{}", process.log());
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(Into::into).collect()
}

#[test]
fn a_ladder_restarts_everything_and_probes_past_admission() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let stack = plans().join("cadence.toml").display().to_string();
    fs::write(path("plan.toml"), PLAN.replace("STACK", &stack)).expect("a plan");
    let (plan, out, shown) = (path("plan.toml"), path("out"), path("shown"));
    let measure = format!("ladder {plan} --out {out} --attempts 10");
    loadgen(folder.path(), "ladder", &words(&measure));
    loadgen(folder.path(), "report", &words(&format!("report {out} --out {shown}")));
    let report = fs::read_to_string(path("shown/report.md")).expect("a report");
    let row = |begin: &str| {
        let row = report.lines().find(|line| line.starts_with(begin));
        let row = row.unwrap_or_else(|| panic!("no {begin:?} in\n{report}"));
        row.trim_matches('|').split('|').map(str::trim).map(Into::into).collect::<Vec<String>>()
    };
    // The last column is the share of prompt tokens that were kept.
    assert_eq!(row("| one at a time | 4 |").last().map(String::as_str), Some("0 %"));
    assert_ne!(row("| with a prefix cache | 4 |").last().map(String::as_str), Some("0 %"));
    // It refuses, and was probed as often as the others all the same.
    assert_ne!(row("| with a limit | 4 |")[5], "0 %", "{report}");
    assert_eq!(row("| with a limit | 2 |")[1], "2");
    assert!(report.contains("| with a limit | with a prefix cache | refused |"), "{report}");
}

#[test]
fn every_plan_has_settings_that_the_programs_take() {
    let folder = tempfile::tempdir().expect("a folder");
    for plan in plans().read_dir().expect("plans") {
        let plan = plan.expect("a plan").path();
        if !plan.ends_with("cadence.toml") {
            loadgen(folder.path(), "list", &words(&format!("ladder {} --list", plan.display())));
        }
    }
}
