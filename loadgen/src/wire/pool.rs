//! Connections that wait for their next request.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use super::connect::Sender;

/// Servers close idle connections after five seconds and more; older ones than this are not tried.
const IDLE_MAX: Duration = Duration::from_secs(4);

/// A stack of them: the latest used first, so that a burst's surplus ages and is dropped.
#[derive(Default)]
pub(super) struct Pool(Mutex<Vec<(Instant, Sender)>>);

impl Pool {
    /// An idle connection that has not been closed, as far as one can know.
    pub(super) fn take(&self) -> Option<Sender> {
        let mut idle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let (since, sender) = idle.pop()?;
            if since.elapsed() > IDLE_MAX {
                // All that are below it are older.
                idle.clear();
                return None;
            }
            if sender.is_ready() {
                return Some(sender);
            }
        }
    }

    pub(super) fn give(&self, sender: Sender) {
        let mut idle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        idle.push((Instant::now(), sender));
    }
}
