//! `loadgen keep`: runs a program for as long as somebody holds our standard input open.
//!
//! Whoever started us may end in any way, by a signal, a panic or `kill -9`: the system then closes the
//! pipe, and the program is told to stop (SIGTERM), and after its grace is killed. So nothing that a ladder
//! started outlives it, and the one way to end a program is the same for all ends.

use std::{
    ffi::OsString, io::Read as _, os::unix::process::ExitStatusExt as _, process::ExitStatus,
    thread, time::Duration,
};

use anyhow::Context as _;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tokio::{
    process::{Child, Command},
    signal::unix::{SignalKind, signal},
    sync::oneshot,
    time::timeout,
};

use crate::exit::Exit;

/// Run a program that ends when standard input does.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// From SIGTERM to SIGKILL
    #[arg(long, value_name = "MS", default_value_t = 15_000)]
    grace_ms: u64,
    /// The program and its arguments
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// Runs it, and ends as it does.
///
/// # Errors
/// It cannot be started.
pub(crate) fn run(options: &Options) -> anyhow::Result<Exit> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(keep(options)).map(|status| Exit::Other(code(status)))
}

async fn keep(options: &Options) -> anyhow::Result<ExitStatus> {
    let (program, args) = options.command.split_first().context("no program")?;
    let mut child = Command::new(program)
        .args(args)
        .stdin(std::process::Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("cannot run {}", program.display()))?;
    let (let_go, released) = oneshot::channel::<()>();
    thread::Builder::new().name("holder".into()).spawn(move || {
        // Nothing is ever said there, so that whatever comes is the end.
        let _ = std::io::stdin().read(&mut [0]);
        drop(let_go);
    })?;
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        ended = child.wait() => return Ok(ended?),
        _ = released => {}
        _ = terminate.recv() => {}
    }
    end(&mut child, Duration::from_millis(options.grace_ms)).await
}

async fn end(child: &mut Child, grace: Duration) -> anyhow::Result<ExitStatus> {
    if let Some(id) = child.id().and_then(|id| i32::try_from(id).ok()) {
        // It was not waited for, so that the id is still its own.
        let _ = kill(Pid::from_raw(id), Signal::SIGTERM);
    }
    if let Ok(ended) = timeout(grace, child.wait()).await {
        return Ok(ended?);
    }
    child.kill().await?;
    Ok(child.wait().await?)
}

/// As shells say it.
fn code(status: ExitStatus) -> u8 {
    let signal = || 128 + status.signal().unwrap_or(0);
    u8::try_from(status.code().unwrap_or_else(signal)).unwrap_or(u8::MAX)
}
