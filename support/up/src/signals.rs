//! Signals that ask us to stop.

use std::{io, time::Duration};

use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    time::Instant,
};

/// A second signal within this time is the same wish: `make` passes on what the whole process group
/// got already.
const ECHO: Duration = Duration::from_millis(500);

/// SIGINT, SIGTERM and SIGHUP.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
    last: Option<Instant>,
}

impl Signals {
    /// Takes over the three signals.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
            last: None,
        })
    }

    /// Returns at the next wish to stop.
    pub(crate) async fn next(&mut self) {
        loop {
            tokio::select! {
                _ = self.interrupt.recv() => {}
                _ = self.terminate.recv() => {}
                _ = self.hangup.recv() => {}
            }
            let echo = self.last.is_some_and(|last| last.elapsed() < ECHO);
            if !echo {
                self.last = Some(Instant::now());
                return;
            }
        }
    }
}
