//! Whether a re-quantised copy of the model is served in its place, which `engine-worker optimize` makes and
//! judges. It is made once, and nothing that goes wrong with it keeps anybody from being served.

use std::{
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};

use anyhow::Context as _;
use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use tokio::{
    io::AsyncReadExt as _,
    process::{Child, ChildStdout, Command},
    time::timeout,
};

use crate::{console::Console, options::Options, signals::Signals};

/// How long it may take to stop and to delete what it wrote.
const GRACE: Duration = Duration::from_secs(10);

/// Its last line tells how the copy compares. No more of what it says is read, in bytes.
const REPORT_MAX: u64 = 64 << 10;

/// Exit codes of `engine-worker optimize`: there is a copy, but it is not good enough, or not faster.
const DIFFERS: i32 = 3;
const NO_FASTER: i32 = 4;

/// What is served.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// The model as it is.
    Original,
    /// Its copy.
    Copy(PathBuf),
    /// Nothing: somebody wants us to stop.
    Stop,
}

/// Has the copy made or looked at, and says in a line what is served and why.
pub(crate) async fn choose(
    options: &Options,
    bin_dir: &Path,
    console: &Console,
    signals: &mut Signals,
) -> Choice {
    let (Some(model), Some(copy)) = (&options.model, &options.optimized_model) else {
        return Choice::Original;
    };
    if !copy.exists() {
        console.line(
            "once for this model: writing a copy of it that this processor is faster with, and comparing the \
             two, for a few minutes (MODEL_EXACT=1 does without)",
        );
    }
    let as_it_is = |why: &str| {
        console.line(&format!("serving the model as it is: {why}"));
        Choice::Original
    };
    match run(bin_dir, model, copy, signals).await {
        Ok(None) => Choice::Stop,
        Ok(Some((status, said))) => match status.code() {
            Some(0) => {
                console.line(&format!("serving a re-quantised copy: {said}"));
                Choice::Copy(copy.clone())
            }
            Some(DIFFERS | NO_FASTER) => as_it_is(&said),
            Some(_) | None => as_it_is("there is no faster copy of it"),
        },
        Err(error) => as_it_is(&format!("{error:#}")),
    }
}

/// Runs `engine-worker optimize`; how it ended, and the last line of its report. Nothing if it was stopped.
async fn run(
    bin_dir: &Path,
    model: &Path,
    copy: &Path,
    signals: &mut Signals,
) -> anyhow::Result<Option<(ExitStatus, String)>> {
    if let Some(folder) = copy.parent() {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make the folder {}", folder.display()))?;
    }
    let mut child = Command::new(bin_dir.join("engine-worker"))
        .args(["optimize", "--refresh", "--model"])
        .arg(model)
        .arg("--out")
        .arg(copy)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        // Ctrl-C reaches us, and it from us.
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .context("cannot run engine-worker")?;
    let report = child.stdout.take().context("a child without a standard output")?;
    tokio::select! {
        ended = end(&mut child, report) => return ended.map(Some),
        () = signals.next() => {}
    }
    stop(&mut child, signals).await;
    Ok(None)
}

async fn end(child: &mut Child, report: ChildStdout) -> anyhow::Result<(ExitStatus, String)> {
    let mut said = Vec::new();
    report.take(REPORT_MAX).read_to_end(&mut said).await?;
    let status = child.wait().await?;
    let said = String::from_utf8_lossy(&said);
    Ok((status, said.lines().next_back().unwrap_or_default().to_owned()))
}

/// Stops it, with time to tidy up unless there is a further signal.
async fn stop(child: &mut Child, signals: &mut Signals) {
    let group = child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw);
    let send = |signal| group.map(|group| killpg(group, signal));
    let _ = send(Signal::SIGTERM);
    let ended = tokio::select! {
        ended = timeout(GRACE, child.wait()) => ended.is_ok(),
        () = signals.next() => false,
    };
    if !ended {
        let _ = send(Signal::SIGKILL);
        let _ = child.wait().await;
    }
}
