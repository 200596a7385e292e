//! Samples the stacks of this process while it serves, and draws them when it stops.
//!
//! A timer of the processor time that the process takes sends a signal, and whichever thread takes it
//! notes its own stack: threads of the backend too, and no rights are needed for it. What sleeps is not
//! seen. Interrupted calls go on (`SA_RESTART`).
//!
//! The picture is made as soon as the process is told to stop, beside the drain: a supervisor that loses
//! patience with the drain does not cost it.

mod flame;

use std::{
    ffi::OsString,
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender},
    thread::{self, JoinHandle},
    time::Duration,
};

use anyhow::{Context as _, anyhow, bail};
use nix::sys::signal::{Signal, raise};
use pprof::{ProfilerGuard, ProfilerGuardBuilder};
use tempfile::NamedTempFile;

use crate::settings::EngineSettings;
use flame::Flame;

/// Samples of a second of processor time. Prime, so that it does not keep time with what it looks at; the
/// kernel may give fewer.
const SAMPLES_PER_SECOND: i32 = 199;

/// A file that a profile will be written to.
#[derive(Debug)]
pub struct Target {
    path: PathBuf,
    /// Beside it, so that the picture takes its place at once or not at all.
    file: NamedTempFile,
    /// How long samples are taken; `None`: until the process stops.
    window: Option<Duration>,
}

impl Target {
    /// The file that `settings` name, if they do. Whatever it holds stays until there is a picture.
    ///
    /// # Errors
    /// The path, and why nothing can be written there.
    pub fn open(settings: &EngineSettings) -> anyhow::Result<Option<Self>> {
        let Some(path) = &settings.profile else { return Ok(None) };
        let seconds = settings.profile_seconds;
        let window = (seconds > 0).then(|| Duration::from_secs(seconds));
        let file = writable(path).with_context(|| format!("profile: {}", path.display()))?;
        Ok(Some(Self { path: path.clone(), file, window }))
    }

    /// Starts to take samples.
    ///
    /// # Errors
    /// The system has no timer or no thread for it.
    pub fn start(self) -> anyhow::Result<Profile> {
        let cannot = "profile: cannot take samples";
        prime().context(cannot)?;
        let builder = ProfilerGuardBuilder::default().frequency(SAMPLES_PER_SECOND);
        let guard = builder.build().context(cannot)?;
        let (stop, stopped) = mpsc::sync_channel(1);
        let run = move || match self.run(guard, &stopped) {
            Ok(samples) => tracing::info!(samples, "profile written"),
            Err(error) => tracing::error!("profile: {error:#}"),
        };
        let thread = thread::Builder::new().name("profile".into()).spawn(run);
        Ok(Profile { stop, thread: thread.context("profile: cannot start a thread")? })
    }

    /// Waits for the end, and writes the picture. Says how many samples are in it.
    fn run(self, guard: ProfilerGuard<'_>, stopped: &Receiver<()>) -> anyhow::Result<u64> {
        match self.window.map(|window| stopped.recv_timeout(window)) {
            Some(Ok(()) | Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected)) => {}
            // Told, or the process ends without a word: the same.
            None => drop(stopped.recv()),
        }
        let report = guard.report().build().context("cannot read the samples")?;
        drop(guard);
        let mut flame = Flame::default();
        for (stack, &count) in &report.data {
            let names = stack.frames.iter().rev().flat_map(|frame| frame.iter().rev());
            let names = names.map(pprof::Symbol::name);
            let samples = u64::try_from(count).unwrap_or(0);
            flame.add([stack.thread_name_or_id()].into_iter().chain(names), samples);
        }
        let Self { path, mut file, .. } = self;
        let written = file.write_all(flame.svg().as_bytes());
        let placed = written.and_then(|()| file.persist(&path).map_err(|error| error.error));
        placed.with_context(|| format!("cannot write {}", path.display()))?;
        Ok(flame.samples())
    }
}

/// Takes one sample of this thread, here. The first sample of a process reads the unwind tables of all its
/// libraries into memory; a later one comes by a signal, perhaps in the middle of an allocation, where taking
/// memory would break the allocator.
fn prime() -> anyhow::Result<()> {
    // So seldom that the timer has no part in it.
    let guard = ProfilerGuardBuilder::default().frequency(1).build()?;
    raise(Signal::SIGPROF)?;
    drop(guard);
    Ok(())
}

/// A place beside `path` for what will be there.
fn writable(path: &Path) -> anyhow::Result<NamedTempFile> {
    match fs::metadata(path) {
        Ok(found) if !found.is_file() => bail!("is not a file"),
        Ok(found) if found.permissions().readonly() => bail!("may not be written"),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error.into()),
    }
    let name = path.file_name().ok_or_else(|| anyhow!("names no file"))?;
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
    let mut prefix = OsString::from(".");
    prefix.push(name);
    let made =
        tempfile::Builder::new().prefix(&prefix).tempfile_in(folder.unwrap_or(Path::new(".")));
    made.map_err(|error| anyhow!("{}", error.kind()))
}

/// A profile that is being taken.
#[derive(Debug)]
pub struct Profile {
    stop: SyncSender<()>,
    thread: JoinHandle<()>,
}

impl Profile {
    /// Takes no more samples, and begins to draw. May be said more than once.
    pub fn stop(&self) {
        // Full or closed: it stops or has stopped already.
        let _ = self.stop.try_send(());
    }

    /// Waits until the picture is there, or the reason why not is in the log.
    pub fn finish(self) {
        self.stop();
        if self.thread.join().is_err() {
            tracing::error!("profile: the thread that draws it died");
        }
    }
}
