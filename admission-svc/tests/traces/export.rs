//! Exports: while the service runs and when it has stopped, as lines and as columns.

use std::{fs, path::Path, process::Output};

use admission_svc::{Caps, TraceStore as _};
use parquet::{
    file::reader::{FileReader as _, SerializedFileReader},
    record::Field,
};
use proto::v1::TraceRow;
use serde_json::{Map, Value};

use crate::{
    opened::opened,
    service::{Service, run},
};

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn exported(source: &[&str], format: &str, out: &Path) {
    let out = out.to_str().expect("text");
    let output = run(&[&["export"], source, &["--format", format, "--out", out]].concat());
    assert!(output.status.success(), "{}", said(&output));
}

fn lines(path: &Path) -> Vec<Map<String, Value>> {
    let text = fs::read_to_string(path).expect("written");
    text.lines().map(|line| serde_json::from_str(line).expect("an object")).collect()
}

fn columns(path: &Path) -> Vec<Map<String, Value>> {
    let file = SerializedFileReader::new(fs::File::open(path).expect("written")).expect("Parquet");
    let rows = file.get_row_iter(None).expect("rows").map(|row| row.expect("a row"));
    rows.map(|row| {
        let pairs = row.get_column_iter().map(|(name, field)| (name.clone(), json(field)));
        pairs.collect()
    })
    .collect()
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the enum is another crate's")]
fn json(field: &Field) -> Value {
    match field {
        Field::Null => Value::Null,
        Field::Bool(value) => (*value).into(),
        Field::Long(value) => (*value).into(),
        Field::ULong(value) => (*value).into(),
        Field::Double(value) => (*value).into(),
        Field::Str(value) => value.as_str().into(),
        other => panic!("no column has {other:?}"),
    }
}

#[tokio::test]
async fn lines_and_columns_agree_running_and_stopped() {
    let dir = tempfile::tempdir().expect("a directory");
    let traces = dir.path().join("traces");
    let mut service = Service::start(&traces, &["--trace-round", "r1"]).await;
    service.decide_all(0..600).await;
    let file = |name: &str| dir.path().join(name);
    let url = service.url();
    // The commands block; the service is another process.
    exported(&["--from", &url], "jsonl", &file("running.jsonl"));
    exported(&["--from", &url], "parquet", &file("running.parquet"));
    exported(&["--from", &url, "--after", "590"], "jsonl", &file("rest.jsonl"));

    let folder = traces.to_str().expect("text").to_owned();
    let busy = run(&["export", "--store", &folder]);
    assert!(!busy.status.success() && said(&busy).contains("in use by another process"));
    service.stop().await;
    exported(&["--store", &folder], "jsonl", &file("stopped.jsonl"));
    exported(&["--store", &folder], "parquet", &file("stopped.parquet"));

    let rows = lines(&file("running.jsonl"));
    assert_eq!(rows.len(), 600);
    assert_eq!(rows, columns(&file("running.parquet")));
    assert_eq!(rows, lines(&file("stopped.jsonl")));
    assert_eq!(rows, columns(&file("stopped.parquet")));
    assert_eq!(rows[590..], lines(&file("rest.jsonl")));
    what_a_row_tells(&rows);
    inspected(&folder);
}

fn what_a_row_tells(rows: &[Map<String, Value>]) {
    let with = |outcome: &str| {
        let found = rows.iter().filter(|row| row["outcome"] == outcome).collect::<Vec<_>>();
        (found.len(), found[0].clone())
    };
    let (count, row) = with("completed");
    assert_eq!(count, 300);
    assert_eq!((&row["verdict"], &row["tier"]), (&"admitted".into(), &"best_effort".into()));
    assert_eq!((&row["e2e_us"], &row["ttft_us"]), (&1_234.into(), &200.into()));
    assert_eq!((&row["observed_us"], &row["censored"]), (&1_234.into(), &false.into()));
    assert_eq!((&row["kv_room"], &row["round"]), (&256.into(), &"r1".into()));
    assert_eq!((&row["step"], &row["cost_base_us"]), (&u64::MAX.into(), &4_000.5.into()));
    assert_eq!((&row["cost_gain"], &row["bound_us"]), (&Value::Null, &Value::Null));
    assert_eq!(row["tenant_hash"].as_str().map(str::len), Some(16));
    assert!(row["offered_unix_us"].as_u64() > Some(1_600_000_000_000_000), "{row:?}");
    let (count, row) = with("refused");
    assert_eq!((count, &row["refusal"]), (300, &"never".into()));
}

fn inspected(folder: &str) {
    let output = run(&["inspect", "--store", folder]);
    let text = String::from_utf8(output.stdout).expect("text");
    for line in
        ["rows      600", "  completed 300", "  refused   300", "numbers   1 to 600", "lost      0"]
    {
        assert!(text.contains(line), "{line:?} is not in\n{text}");
    }
}

#[tokio::test]
async fn what_is_open_at_a_stop_has_a_row() {
    let dir = tempfile::tempdir().expect("a directory");
    let traces = dir.path().join("traces");
    let mut service = Service::start(&traces, &["--trace-flush-ms", "60000"]).await;
    for number in 0..3 {
        service.let_in(2 * number).await;
    }
    service.stop().await;
    let out = dir.path().join("stopped.jsonl");
    exported(&["--store", traces.to_str().expect("text")], "jsonl", &out);
    let rows = lines(&out);
    assert_eq!(rows.len(), 3, "{rows:?}");
    for row in rows {
        assert_eq!((&row["outcome"], &row["censoring"]), (&"censored".into(), &"stopped".into()));
        assert_eq!((&row["censored"], &row["e2e_us"]), (&true.into(), &Value::Null));
        assert!(row["observed_us"].as_u64() > Some(0), "{row:?}");
    }
}

#[test]
fn mistakes_are_said_in_one_line_and_leave_no_file() {
    let dir = tempfile::tempdir().expect("a directory");
    let out = dir.path().join("out");
    let out = out.to_str().expect("text");
    let nowhere = dir.path().join("nowhere");
    let nowhere = nowhere.to_str().expect("text");
    for (args, wanted) in [
        (&["export", "--store", nowhere][..], "nowhere is no folder"),
        (&["inspect", "--store", nowhere], "nowhere is no folder"),
        (&["export", "--format", "parquet", "--store", nowhere], "needs --out"),
        (&["export", "--from", "http://127.0.0.1:1", "--out", out], "cannot export from"),
        (&["export", "--from", "a b", "--out", out], "is not an address"),
        (&["export", "--from", "x", "--store", "y"], "cannot be used with"),
    ] {
        let output = run(args);
        assert!(!output.status.success(), "{args:?}");
        assert!(said(&output).contains(wanted), "{args:?}: {}", said(&output));
    }
    assert_eq!(fs::read_dir(dir.path()).expect("a directory").count(), 0);
}

#[test]
fn a_folder_that_is_read_stays_as_it_is() {
    let dir = tempfile::tempdir().expect("a directory");
    let strange = dir.path().join("strange");
    fs::create_dir(&strange).expect("writable");
    let output = run(&["inspect", "--store", strange.to_str().expect("text")]);
    assert!(
        !output.status.success() && said(&output).contains("no trace folder"),
        "{}",
        said(&output)
    );
    assert_eq!(names(&strange), [""; 0]);

    let traces = dir.path().join("traces");
    let caps = Caps { bytes: 64 << 20, rows: 160 };
    let mut disk = opened(&traces, caps);
    for _ in 0..6 {
        disk.append(vec![TraceRow { request_id: "0".repeat(32), ..Default::default() }; 10])
            .expect("taken");
        disk.flush().expect("flushed");
    }
    drop(disk);
    let oldest = traces.join("rows-00000000000000000001");
    fs::write(oldest.join("conf"), "nonsense throughout").expect("writable");
    let (before, mark) = (names(&traces), fs::read(traces.join("mark")).expect("there"));
    let output = run(&["export", "--store", traces.to_str().expect("text")]);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), 40);
    assert!(said(&output).contains("40 rows, 20 left out"), "{}", said(&output));
    assert_eq!(names(&traces), before);
    assert_eq!(fs::read(traces.join("mark")).expect("there"), mark);
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    let mut names: Vec<_> = entries
        .map(|entry| entry.expect("there").file_name().into_string().expect("text"))
        .collect();
    names.sort();
    names
}

#[test]
fn every_column_is_told() {
    let output = run(&["export", "--columns"]);
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(text.lines().count() > 50, "{text}");
    assert!(text.contains("\npropensity "), "{text}");
}
