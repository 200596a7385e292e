//! One running process, leader of a process group of its own: Ctrl-C in the terminal reaches us, and
//! not it.

use std::{
    fs::File,
    io,
    path::Path,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use anyhow::Context as _;
use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use tokio::{process::Command, time::Instant};

use crate::{preflight, stack::Spec};

/// A process and the note of its id, which goes when the process does.
pub(crate) struct Child<'a> {
    spec: &'a Spec,
    run_dir: &'a Path,
    process: tokio::process::Child,
    group: Pid,
    born: Instant,
}

impl<'a> Child<'a> {
    /// Starts the process; it writes to `log`.
    ///
    /// # Errors
    /// The program cannot be run, or its id not be noted.
    pub(crate) fn start(spec: &'a Spec, run_dir: &'a Path, log: File) -> anyhow::Result<Self> {
        let process = Command::new(&spec.program)
            .args(spec.args())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot run {}", spec.program.display()))?;
        let id = process.id().expect("a process that was not waited for has an id");
        let group = Pid::from_raw(i32::try_from(id).context("a process id beyond i32")?);
        preflight::write_pid(run_dir, spec.name, id)
            .with_context(|| format!("cannot note the process id of {}", spec.name))?;
        Ok(Self { spec, run_dir, process, group, born: Instant::now() })
    }

    /// How long ago it was started.
    pub(crate) fn age(&self) -> Duration {
        self.born.elapsed()
    }

    /// Its process id.
    pub(crate) fn id(&self) -> i32 {
        self.group.as_raw()
    }

    /// Returns when it has ended. May be called again after being dropped half-way.
    ///
    /// # Errors
    /// The system cannot tell.
    pub(crate) async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.process.wait().await
    }

    /// Sends a signal to it and whatever it started. One that has ended meanwhile is left alone: until
    /// it is waited for, its id belongs to no one else.
    pub(crate) fn signal(&self, signal: Signal) {
        if self.process.id().is_some() {
            let _ = killpg(self.group, signal);
        }
    }
}

impl Drop for Child<'_> {
    fn drop(&mut self) {
        preflight::remove_pid(self.run_dir, self.spec.name);
    }
}
