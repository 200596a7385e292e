//! The clients that people have: scripts of support/clients, each a conversation with a stack.

use std::{
    ffi::OsString,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use tempfile::TempDir;
use tokio::process::Command;

use crate::{Stack, skipped};

/// No conversation takes this long, on any machine.
const PATIENCE: Duration = Duration::from_secs(180);

/// What runs a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    /// The shell: `curl.sh`.
    Shell,
    /// Python with the packages of `python/requirements.txt`.
    Python,
    /// Node with the packages of `node/package-lock.json`.
    Node,
}

/// A script, ready to run.
struct Ready {
    program: OsString,
    script: PathBuf,
    /// Holds a copy of the script where the script cannot stay.
    _copy: Option<TempDir>,
}

impl Client {
    /// Runs a script against a stack. Where the client has not been installed, says so on the standard
    /// error, past the test harness, and does nothing.
    ///
    /// # Panics
    /// A check of the script does not hold, or it takes longer than three minutes.
    pub async fn converse(self, script: &str, stack: &Stack) {
        let ready = match self.ready(script) {
            Ok(ready) => ready,
            Err(reason) => {
                skipped(&format!("support/clients/{script}: {reason}"));
                return;
            }
        };
        let mut command = Command::new(&ready.program);
        command
            .arg(&ready.script)
            .args([stack.url(0, ""), stack.engine_metrics_url(), stack.engine.id().to_string()])
            // Otherwise it lies beside the scripts.
            .env("PYTHONPYCACHEPREFIX", cache().join("pycache"))
            .stdin(Stdio::null())
            .kill_on_drop(true);
        let output = tokio::time::timeout(PATIENCE, command.output());
        let output = output.await.unwrap_or_else(|_| panic!("{script} runs for {PATIENCE:?}"));
        let output = output.unwrap_or_else(|error| panic!("{script}: {error}"));
        let said =
            String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{script}: {}\n{said}", output.status);
        assert!(
            said.contains("holds: an engine that dies is an error"),
            "{script} ends early: {said}"
        );
    }

    /// # Errors
    /// Why it cannot run.
    fn ready(self, script: &str) -> Result<Ready, String> {
        let script = scripts().join(script);
        match self {
            Self::Shell => Ok(Ready { program: "bash".into(), script, _copy: None }),
            Self::Python => {
                let program = installed("python")?.join("bin/python").into();
                Ok(Ready { program, script, _copy: None })
            }
            Self::Node => {
                let packages = installed("node")?;
                let own = installed("python").map(|it| it.join("bin/node")).ok();
                let program = own.filter(|it| it.exists()).map_or("node".into(), Into::into);
                let copy = beside_packages(&script, &packages);
                let script = copy.path().join(script.file_name().expect("a file"));
                Ok(Ready { program, script, _copy: Some(copy) })
            }
        }
    }
}

/// A module finds packages only in folders above it: the scripts are copied to where there are some.
fn beside_packages(script: &Path, packages: &Path) -> TempDir {
    let copy = tempfile::tempdir().expect("a folder");
    for entry in fs::read_dir(script.parent().expect("a folder")).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|it| it == "mjs") {
            let name = path.file_name().expect("a file");
            fs::copy(&path, copy.path().join(name)).expect("a copy");
        }
    }
    symlink(packages.join("node_modules"), copy.path().join("node_modules")).expect("a link");
    copy
}

/// What `support/clients/setup.sh` has installed.
fn installed(name: &str) -> Result<PathBuf, String> {
    let folder = cache().join(name);
    if folder.join("installed").exists() {
        return Ok(folder);
    }
    let reason = fs::read_to_string(folder.with_extension("skipped"));
    Err(reason.map_or("`make test` installs what it needs".into(), |it| it.trim().into()))
}

fn cache() -> PathBuf {
    let folder = std::env::var_os("CADENCE_CACHE").unwrap_or_else(|| ".cache".into());
    root().join(folder).join("clients")
}

fn scripts() -> PathBuf {
    root().join("support/clients")
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("support/e2e lies in it")
}
