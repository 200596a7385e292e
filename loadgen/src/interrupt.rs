//! Ctrl-C and SIGTERM: the first asks for an orderly end, the second ends the process.

use std::thread;

use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::watch,
};

use crate::console;

/// Whether somebody asked for an end.
#[derive(Clone, Debug)]
pub(crate) struct Stop(watch::Receiver<bool>);

impl Stop {
    /// Listens from now on, on a thread of its own, for as long as the process lives.
    ///
    /// # Errors
    /// The system has no thread or no signals left.
    pub(crate) fn listen() -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (asked, stop) = watch::channel(false);
        let guard = runtime.enter();
        let signals = [signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?];
        // A file that may not grow is an error like a full disk, and no reason to die.
        drop(signal(SignalKind::from_raw(nix::libc::SIGXFSZ))?);
        drop(guard);
        let work = move || runtime.block_on(wait(signals, asked));
        thread::Builder::new().name("signals".into()).spawn(work)?;
        Ok(Self(stop))
    }

    /// Whether it was asked for already.
    pub(crate) fn is_asked(&self) -> bool {
        *self.0.borrow()
    }

    /// Returns when it is asked for.
    pub(crate) async fn asked(&mut self) {
        if self.0.wait_for(|asked| *asked).await.is_err() {
            // Nobody can ask any more.
            std::future::pending::<()>().await;
        }
    }
}

async fn wait([mut interrupt, mut terminate]: [Signal; 2], asked: watch::Sender<bool>) {
    for is_second in [false, true] {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        if is_second {
            std::process::exit(130);
        }
        console::note("\nstopping: writing down what was measured");
        asked.send_replace(true);
    }
}
