//! What a process cannot start with: it says so in one line, at once, and its exit code says that
//! another start will not help.

use std::{fs, net::TcpListener, path::Path, time::Duration};

use e2e::{Conditions, Process};
use ports::free_address;

/// The exit code of a process that cannot run as it is configured.
const REFUSED: i32 = 78;
const PATIENCE: Duration = Duration::from_secs(20);

/// A binary, its section of the configuration, and whether it has an address for metrics.
const SERVICES: [(&str, &str, bool); 3] = [
    ("engine-worker", "engine", true),
    ("admission-svc", "admission", true),
    ("gateway", "gateway", false),
];

/// Starts a binary on free ports; returns what it says before it ends. A model that does not exist keeps
/// the engine from running, if it gets that far.
fn says(dir: &Path, binary: &str, args: &[&str], vars: &[(&str, &str)]) -> String {
    let mut all = vec!["--listen".to_owned(), free_address().to_string()];
    if binary != "gateway" {
        all.extend(["--metrics-listen".into(), free_address().to_string()]);
    }
    if binary == "engine-worker" {
        all.extend(["--model".into(), "there-is-no-such.gguf".into()]);
    }
    all.extend(args.iter().map(ToString::to_string));
    let vars = vars.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    let conditions = Conditions { vars };
    let log = tempfile::tempdir_in(dir).expect("a folder");
    let mut process = Process::start_under(conditions, binary, "only", &all, log.path());
    let status = process.wait(PATIENCE);
    let said = process.log();
    assert_eq!(status.code(), Some(REFUSED), "{binary} {args:?}: {said}");
    said
}

#[test]
fn a_busy_port_is_named_before_anything_slow() {
    let dir = tempfile::tempdir().expect("a folder");
    let busy = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = busy.local_addr().expect("an address").to_string();
    for (binary, _, metrics) in SERVICES {
        let flags = if metrics { &["--listen", "--metrics-listen"][..] } else { &["--listen"] };
        for flag in flags {
            // The model would be complained about if it had been looked for.
            let said = says(dir.path(), binary, &[*flag, &address], &[]);
            assert_eq!(said, format!("{binary}: address {address} is already in use\n"));
        }
    }
}

#[test]
fn a_bad_setting_is_named_wherever_it_stands() {
    let dir = tempfile::tempdir().expect("a folder");
    for (binary, section, _) in SERVICES {
        for (text, wanted) in [
            (format!("[{section}]\nlistn = 'x'"), format!("unknown key \"{section}.listn\"")),
            (format!("[{section}]\nlisten = 'x'"), "'x' for '--listen <LISTEN>'".into()),
            (format!("[{section}]\nlog = {{}}"), format!("{section}.log must be a plain value")),
            (format!("[{section}x]"), format!("unknown key \"{section}x\"")),
            (format!("{section} = 3"), format!("{section} is not a section")),
            (format!("[{section}]\n\nlisten = "), "line 3: ".into()),
            ("\u{0}".into(), "line 1: ".into()),
        ] {
            let file = dir.path().join("cadence.toml");
            fs::write(&file, &text).expect("written");
            let file = file.to_str().expect("the folder's name is text");
            let said = says(dir.path(), binary, &[], &[("CADENCE_CONFIG", file)]);
            one_line(&said, &format!("{binary}: {file}: "));
            assert!(said.contains(&wanted), "{wanted:?} is not in {said:?}");
        }
        let var = |key: &str| format!("CADENCE_{}_{key}", section.to_uppercase());
        for (var, wanted) in [
            (var("LISTN"), format!("unknown key \"{}\"", var("LISTN"))),
            (var("LISTEN"), "'y' for '--listen <LISTEN>'".into()),
        ] {
            let said = says(dir.path(), binary, &[], &[(&var, "y")]);
            one_line(&said, &format!("{binary}: environment: "));
            assert!(said.contains(&wanted), "{wanted:?} is not in {said:?}");
        }
        let said = says(dir.path(), binary, &["--listn", "x"], &[]);
        assert!(said.starts_with("error: unexpected argument '--listn'"), "{said}");
        let said = says(dir.path(), binary, &["--log", "info,=?"], &[]);
        one_line(&said, &format!("{binary}: log: "));
    }
}

#[test]
fn a_configuration_that_cannot_be_read_is_named() {
    let dir = tempfile::tempdir().expect("a folder");
    let (missing, folder) = (dir.path().join("no.toml"), dir.path().to_owned());
    let binary_file = dir.path().join("binary.toml");
    fs::write(&binary_file, b"\xff\xfe[gateway]").expect("written");
    for (binary, ..) in SERVICES {
        for file in [&missing, &folder, &binary_file] {
            let file = file.to_str().expect("the folder's name is text");
            let said = says(dir.path(), binary, &["--config", file], &[]);
            one_line(&said, &format!("{binary}: {file}: "));
        }
    }
}

#[test]
fn a_model_that_is_not_there_is_named() {
    let dir = tempfile::tempdir().expect("a folder");
    let said = says(dir.path(), "engine-worker", &[], &[]);
    let last = said.lines().last().expect("a line");
    assert!(last.contains("there-is-no-such.gguf"), "{said}");
}

fn one_line(said: &str, beginning: &str) {
    assert!(said.starts_with(beginning), "{said:?} does not begin with {beginning:?}");
    assert_eq!(said.trim_end().lines().count(), 1, "more than a line: {said}");
}
