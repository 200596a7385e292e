//! Keeps one process running until it is told to stop.

use std::{
    os::unix::process::ExitStatusExt as _,
    path::PathBuf,
    process::ExitStatus,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, bail};
use nix::sys::signal::Signal;
use tokio::{
    sync::watch,
    time::{MissedTickBehavior, interval, sleep},
};

use crate::{
    child::Child,
    console::Console,
    log::Log,
    policy::{Death, Restarts, Verdict},
    stack::Spec,
};

const TRIM_EVERY: Duration = Duration::from_secs(1);
/// How much of its log is shown when a process is given up.
const LAST_LINES: usize = 8;

/// What a service is told; each order outranks the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Order {
    /// Keep running.
    Run,
    /// Stop within the grace.
    Stop,
    /// Stop now.
    Kill,
}

/// One of the three, and what it needs to be kept running.
pub(crate) struct Service {
    pub(crate) spec: Spec,
    pub(crate) run_dir: PathBuf,
    pub(crate) console: Console,
    /// Set once all of Cadence is ready.
    pub(crate) was_ready: Arc<AtomicBool>,
    pub(crate) orders: watch::Receiver<Order>,
}

impl Service {
    /// Runs until ordered to stop.
    ///
    /// # Errors
    /// The process cannot be started, or dies in a way that starting again does not mend.
    pub(crate) async fn keep_running(mut self) -> anyhow::Result<()> {
        let (spec, run_dir) = (self.spec.clone(), self.run_dir.clone());
        let mut log = Log::create(&run_dir, spec.name)
            .with_context(|| format!("cannot write the log of {}", spec.name))?;
        let mut restarts = Restarts::new();
        loop {
            let mut child = Child::start(&spec, &run_dir, log.next_writer()?)?;
            self.console.line(&format!("{} started (process {})", spec.name, child.id()));
            let Some(status) = self.watch(&mut child, &mut log).await? else {
                return self.stop(child).await;
            };
            let lived = child.age();
            drop(child);
            let was_ready = self.was_ready.load(Ordering::Relaxed);
            let after = match restarts.died(Death { lived, code: status.code(), was_ready }) {
                Verdict::Restart { after } => after,
                Verdict::GiveUp => bail!("{}", last_words(spec.name, status, &log)),
            };
            self.console.line(&obituary(spec.name, status, after, &log));
            tokio::select! {
                () = sleep(after) => {}
                () = ordered(&mut self.orders, Order::Stop) => return Ok(()),
            }
        }
    }

    /// Returns how the process ended, or nothing when it is to be stopped.
    async fn watch(
        &mut self,
        child: &mut Child<'_>,
        log: &mut Log,
    ) -> anyhow::Result<Option<ExitStatus>> {
        let mut trim = interval(TRIM_EVERY);
        trim.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                status = child.wait() => return Ok(Some(status?)),
                () = ordered(&mut self.orders, Order::Stop) => return Ok(None),
                _ = trim.tick() => if let Err(error) = log.trim() {
                    self.console.line(&format!("cannot trim the log of {}: {error}", self.spec.name));
                }
            }
        }
    }

    async fn stop(&mut self, mut child: Child<'_>) -> anyhow::Result<()> {
        let Spec { name, grace, .. } = self.spec;
        self.console.line(&format!("stopping {name}"));
        child.signal(Signal::SIGTERM);
        tokio::select! {
            status = child.wait() => {
                status?;
                return Ok(());
            }
            () = sleep(grace) => {
                self.console.line(&format!("{name} did not stop within {} ms: killed", grace.as_millis()));
            }
            () = ordered(&mut self.orders, Order::Kill) => {
                self.console.line(&format!("{name} killed"));
            }
        }
        child.signal(Signal::SIGKILL);
        child.wait().await?;
        Ok(())
    }
}

/// Returns once `least` or a higher order is given. One who can give no more orders wants us gone.
async fn ordered(orders: &mut watch::Receiver<Order>, least: Order) {
    let _ = orders.wait_for(|order| *order >= least).await;
}

/// One line on a process that is started again.
fn obituary(name: &str, status: ExitStatus, after: Duration, log: &Log) -> String {
    let words =
        log.tail(1).pop().map_or_else(String::new, |line| format!("; its last line: {line}"));
    format!("{name} ended ({}), again in {} ms{words}", cause(status), after.as_millis())
}

/// A line and the end of the log of a process that is not.
fn last_words(name: &str, status: ExitStatus, log: &Log) -> String {
    let mut text = format!("{name} cannot run ({}); its last lines:", cause(status));
    for line in log.tail(LAST_LINES) {
        text.push_str("\n  ");
        text.push_str(&line);
    }
    text
}

fn cause(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => status.to_string(),
    }
}
