//! How many connections there may be.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tracing::warn;

use crate::metrics;

/// Files that are not connections of clients: logs, listeners, upstreams, and connections that are
/// being refused.
const OTHER_FILES: u64 = 256;

/// Places for connections.
#[derive(Debug)]
pub(crate) struct Seats {
    max: usize,
    taken: AtomicUsize,
}

/// The place of one connection; dropping it gives the place back.
#[derive(Debug)]
pub(crate) struct Seat(Arc<Seats>);

impl Seats {
    /// At most `wanted`, or as many as the process may have files for.
    pub(crate) fn new(wanted: usize) -> Arc<Self> {
        let files = files(wanted as u64 + OTHER_FILES).saturating_sub(OTHER_FILES).max(1);
        let max = wanted.min(usize::try_from(files).unwrap_or(usize::MAX));
        if max < wanted {
            warn!(wanted, max, "the limit of open files allows fewer connections");
        }
        Arc::new(Self { max, taken: AtomicUsize::new(0) })
    }

    /// A place, if one is free.
    pub(crate) fn take(self: &Arc<Self>) -> Option<Seat> {
        let more = |taken| (taken < self.max).then_some(taken + 1);
        let before = self.taken.fetch_update(Relaxed, Relaxed, more).ok()?;
        metrics::connections(before + 1);
        Some(Seat(Arc::clone(self)))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let before = self.0.taken.fetch_sub(1, Relaxed);
        metrics::connections(before - 1);
    }
}

/// How many files this process may open, after asking for `wanted`.
fn files(wanted: u64) -> u64 {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return wanted };
    if soft >= wanted {
        return soft;
    }
    let raised = wanted.min(hard);
    match setrlimit(Resource::RLIMIT_NOFILE, raised, hard) {
        Ok(()) => raised,
        Err(_) => soft,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_had_once_and_comes_back() {
        let seats = Seats::new(2);
        let first = seats.take().expect("a place");
        let _second = seats.take().expect("a place");
        assert!(seats.take().is_none());
        drop(first);
        assert!(seats.take().is_some());
    }
}
