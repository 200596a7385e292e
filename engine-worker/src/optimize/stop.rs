//! Being asked to stop.

use std::{
    process,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use anyhow::{Context as _, ensure};

/// After a second signal nothing is tidied up. As a shell reports a process that SIGINT ended.
const AT_ONCE: i32 = 130;

/// Whether somebody wants this process to stop.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Listens for SIGINT and SIGTERM from now on. The second ends the process at once.
    ///
    /// # Errors
    /// The handlers cannot be installed.
    pub(crate) fn on_signals() -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (once, twice) = {
            let _entered = runtime.enter();
            service::signal::shutdown_twice().context("cannot listen for signals")?
        };
        let stop = Self::default();
        let asked = stop.clone();
        let listen = move || {
            runtime.block_on(async {
                once.await;
                asked.0.store(true, Ordering::Relaxed);
                twice.await;
                process::exit(AT_ONCE);
            });
        };
        thread::Builder::new().name("signals".into()).spawn(listen)?;
        Ok(stop)
    }

    /// # Errors
    /// Somebody asked.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        ensure!(!self.0.load(Ordering::Relaxed), "stopped; nothing was written");
        Ok(())
    }
}
