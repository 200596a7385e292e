//! The way out: serving -> draining -> ending.
//!
//! While draining, `/ready` says so, new work is refused and running answers go on. When ending, the
//! answers that still run are told in band.

use tokio::sync::watch;

/// Where the process stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    Serving,
    Draining,
    Ending,
}

/// The phase, seen from every thread.
#[derive(Debug)]
pub(crate) struct Drain(watch::Sender<Phase>);

/// Tells one answer when it has to end.
#[derive(Clone, Debug)]
pub(crate) struct Ending(watch::Receiver<Phase>);

impl Drain {
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(Phase::Serving))
    }

    pub(crate) fn enter(&self, phase: Phase) {
        self.0.send_replace(phase);
    }

    pub(crate) fn is_serving(&self) -> bool {
        *self.0.borrow() == Phase::Serving
    }

    pub(crate) fn ending(&self) -> Ending {
        Ending(self.0.subscribe())
    }
}

impl Ending {
    /// Returns when answers have to end. May be dropped and called again.
    pub(crate) async fn begun(&mut self) {
        if self.0.wait_for(|phase| *phase == Phase::Ending).await.is_err() {
            // The application is gone, and with it the reason to wait.
            std::future::pending::<()>().await;
        }
    }
}
