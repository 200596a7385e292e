//! One process of a cell, kept by `loadgen keep`: it ends when we do, however we do.

use std::{
    fs::{self, File},
    io,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};

use super::programs::{Call, quiet};

/// What `loadgen keep` may take longer than the grace of its program.
const MARGIN: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(10);
/// Characters of its last words.
const WORDS_MAX: usize = 600;

/// A running process. Stopped when dropped.
pub(super) struct Process {
    name: String,
    keeper: Child,
    /// The process is told to stop when this is closed.
    hold: Option<ChildStdin>,
    log: PathBuf,
    patience: Duration,
}

impl Process {
    /// Starts it with a log in `folder`.
    ///
    /// # Errors
    /// It cannot be run.
    pub(super) fn start(name: &str, call: &Call, folder: &Path) -> anyhow::Result<Self> {
        let cannot = || format!("cannot run {name}");
        let log = folder.join(format!("{name}.log"));
        let out = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let grace = Duration::from_secs(call.grace_s);
        let mut command = Command::new(ourselves().with_context(cannot)?);
        command
            .arg0("loadgen")
            .args(["keep", "--grace-ms", &grace.as_millis().to_string(), "--"])
            .arg(&call.program)
            .args(&call.args)
            .stdin(Stdio::piped())
            .stdout(out.try_clone().with_context(cannot)?)
            .stderr(out)
            // Ctrl-C in the terminal reaches us, and not it.
            .process_group(0);
        let mut keeper = quiet(&mut command).spawn().with_context(cannot)?;
        let hold = keeper.stdin.take();
        Ok(Self { name: name.into(), keeper, hold, log, patience: grace + MARGIN })
    }

    /// Whether it still runs.
    ///
    /// # Errors
    /// It does not; with its last words.
    pub(super) fn check(&mut self) -> anyhow::Result<()> {
        match self.keeper.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => bail!("{} ended ({status}): {}", self.name, self.last_words()),
            Err(error) => Err(error).with_context(|| format!("cannot watch {}", self.name)),
        }
    }

    /// Tells it to stop and waits until it is gone.
    ///
    /// # Errors
    /// It is not, although it was killed.
    pub(super) fn stop(mut self) -> anyhow::Result<()> {
        self.end()
    }

    fn end(&mut self) -> anyhow::Result<()> {
        drop(self.hold.take());
        let until = Instant::now() + self.patience;
        while self.keeper.try_wait()?.is_none() {
            if Instant::now() >= until {
                self.keeper.kill()?;
                self.keeper.wait()?;
                bail!("{} did not end", self.name);
            }
            thread::sleep(POLL);
        }
        Ok(())
    }

    fn last_words(&self) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let line = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("without a word");
        line.chars().filter(|c| !c.is_control()).take(WORDS_MAX).collect()
    }
}

/// This very program, even if another was built in its place meanwhile.
fn ourselves() -> io::Result<PathBuf> {
    let link = PathBuf::from("/proc/self/exe");
    if link.exists() { Ok(link) } else { std::env::current_exe() }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Whoever wanted to know whether it ends has called `stop`.
        let _ = self.end();
    }
}
