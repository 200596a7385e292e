//! Settings from files and environments that nobody would write on purpose.
//!
//! Runs for about a second; `CADENCE_FUZZ_SECS` says how long instead. What once failed is kept beside
//! this file and tried first.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs,
    time::{Duration, Instant},
};

use clap::{Args, ValueEnum};
use proptest::{
    collection::vec,
    prelude::*,
    sample::select,
    test_runner::{Config, TestCaseResult, TestError, TestRunner},
};
use serde::Serialize;
use service::health::Probe;
use service::settings::{Request, Settings, SettingsError, read};

/// A setting of every kind that the services have.
#[derive(Debug, Args, Serialize)]
struct Sample {
    /// A number.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=512))]
    workers: u16,
    /// A fraction.
    #[arg(long, default_value_t = 0.5)]
    share: f64,
    /// Text.
    #[arg(long, default_value = "info")]
    log: String,
    /// A list.
    #[arg(long, value_delimiter = ',', default_value = "127.0.0.1:1")]
    engine: Vec<String>,
    /// An address.
    #[arg(long, default_value = "127.0.0.1:50051")]
    listen: std::net::SocketAddr,
    /// One of a few.
    #[arg(long, value_enum, default_value = "mock")]
    backend: Backend,
    /// Perhaps a file.
    #[arg(long)]
    model: Option<std::path::PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Backend {
    Llama,
    Mock,
}

const KEYS: [&str; 7] = ["workers", "share", "log", "engine", "listen", "backend", "model"];
const SECTIONS: [&str; 4] = ["gateway", "admission", "engine", "loadgen"];

impl Settings for Sample {
    const SECTION: &'static str = "engine";
    const BINARY: &'static str = "sample";
    const ABOUT: &'static str = "A sample.";

    fn probe(&self) -> Probe {
        Probe::Http { listen: ([127, 0, 0, 1], 1).into(), path: "/" }
    }
}

fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => select(&KEYS[..]).prop_map(String::from),
        1 => select(vec!["config", "print_config", "help", "version", "Workers", "worker", "a.b"])
            .prop_map(String::from),
        1 => "[a-z_]{1,12}",
        1 => "\\PC{0,6}",
    ]
}

/// What stands right of an `=`.
fn value() -> impl Strategy<Value = String> {
    let plain = prop_oneof![
        any::<i64>().prop_map(|it| it.to_string()),
        any::<f64>().prop_map(|it| it.to_string()),
        select(vec![
            "1",
            "512",
            "513",
            "true",
            "'mock'",
            "'info'",
            "'127.0.0.1:80'",
            "''",
            "'a,b'",
            "','",
            "'--workers'",
            "'-1'",
            "1979-05-27",
            "{}",
            "{a = 1}",
            "inf",
            "nan",
            "\"\\u0000\"",
            "'''\n'''",
        ])
        .prop_map(String::from),
        "\\PC{0,12}".prop_map(|it| format!("{it:?}")),
        "\\PC{0,12}",
    ];
    let list = vec(plain.clone(), 0..4).prop_map(|items| format!("[{}]", items.join(", ")));
    prop_oneof![4 => plain, 1 => list]
}

fn line() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => (key(), value()).prop_map(|(key, value)| format!("{key} = {value}")),
        2 => select(&SECTIONS[..]).prop_map(|name| format!("[{name}]")),
        1 => key().prop_map(|name| format!("[{name}]")),
        1 => key().prop_map(|name| format!("[engine.{name}]")),
        1 => "\\PC{0,20}",
    ]
}

fn text() -> impl Strategy<Value = Vec<u8>> {
    let lines = vec(line(), 0..8).prop_map(|lines| format!("[engine]\n{}", lines.join("\n")));
    prop_oneof![8 => lines.prop_map(String::into_bytes), 1 => vec(any::<u8>(), 0..64)]
}

fn vars() -> impl Strategy<Value = BTreeMap<String, String>> {
    let name = prop_oneof![
        4 => key().prop_map(|key| format!("CADENCE_ENGINE_{}", key.to_uppercase())),
        1 => key().prop_map(|key| format!("CADENCE_GATEWAY_{key}")),
        1 => "CADENCE_\\PC{0,8}",
    ];
    let value = value().prop_map(|value| value.trim_matches('\'').to_owned());
    proptest::collection::btree_map(name, value, 0..3)
}

/// Tries cases until the time is over.
fn fuzz<S: Strategy>(strategy: &S, check: impl Fn(S::Value) -> TestCaseResult)
where
    S::Value: std::fmt::Debug,
{
    let seconds = std::env::var("CADENCE_FUZZ_SECS").ok();
    let seconds = seconds.map_or(1, |it| it.parse().expect("CADENCE_FUZZ_SECS is a number"));
    let deadline = Instant::now() + Duration::from_secs(seconds);
    let config = Config { source_file: Some(file!()), ..Config::with_cases(256) };
    let mut runner = TestRunner::new(config);
    while Instant::now() < deadline {
        match runner.run(strategy, &check) {
            Ok(()) => {}
            Err(TestError::Fail(reason, case)) => panic!("{reason}\n{case:#?}"),
            Err(TestError::Abort(reason)) => panic!("no case: {reason}"),
        }
    }
}

fn read_both(
    text: &[u8],
    mut vars: BTreeMap<String, String>,
    args: &[&str],
) -> Result<Request<Sample>, SettingsError> {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("c.toml");
    fs::write(&path, text).expect("a file");
    vars.insert("CADENCE_CONFIG".into(), path.display().to_string());
    read(["sample"].iter().chain(args).map(OsString::from), &vars)
}

/// Keys of our section that are none.
fn unknown_keys(text: &[u8]) -> Vec<String> {
    let Some(text) = std::str::from_utf8(text).ok() else { return Vec::new() };
    let Ok(table) = text.parse::<toml::Table>() else { return Vec::new() };
    let Some(toml::Value::Table(section)) = table.get(Sample::SECTION) else { return Vec::new() };
    section.keys().filter(|key| !KEYS.contains(&key.as_str())).cloned().collect()
}

#[test]
fn fuzz_settings_are_read_or_refused_by_name() {
    fuzz(&(text(), vars()), |(text, vars)| {
        let unknown = unknown_keys(&text);
        let foreign = vars.keys().any(|var| {
            let key = var.strip_prefix("CADENCE_ENGINE_").map(str::to_lowercase);
            key.is_some_and(|key| !KEYS.contains(&key.as_str()))
        });
        match read_both(&text, vars, &[]) {
            Ok(Request::Run(sample)) => {
                prop_assert!(unknown.is_empty() && !foreign, "an unknown key was ignored");
                prop_assert!((1..=512).contains(&sample.workers));
            }
            Ok(Request::Print(_) | Request::Healthcheck(_)) => {
                prop_assert!(false, "nobody asked for anything but to run");
            }
            Err(error) => {
                let told = error.to_string();
                prop_assert!(!told.trim().is_empty());
                let of_file = matches!(&error, SettingsError::Unknown { place, .. }
                    if place.ends_with("c.toml"));
                if let (true, SettingsError::Unknown { key, .. }) = (of_file, &error) {
                    prop_assert!(told.contains(&format!("{key:?}")), "{told}");
                } else {
                    // The section is only looked at when the file is one.
                    let named = unknown.is_empty() || matches!(error, SettingsError::File { .. });
                    prop_assert!(named, "{unknown:?} not named by {told}");
                }
            }
        }
        Ok(())
    });
}

#[test]
fn fuzz_printed_settings_read_back_the_same() {
    fuzz(&(text(), vars()), |(text, vars)| {
        if let Ok(Request::Print(printed)) = read_both(&text, vars, &["--print-config"]) {
            let again = read_both(printed.as_bytes(), BTreeMap::new(), &["--print-config"]);
            let Ok(Request::Print(again)) = again else {
                return Err(TestCaseError::fail(format!("{again:?} of {printed}")));
            };
            prop_assert_eq!(printed, again);
        }
        Ok(())
    });
}
