//! How many connections there may be.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::sync::{Semaphore, SemaphorePermit};
use tracing::warn;

use crate::metrics;

/// Files that are not connections of clients: logs, listeners, upstreams, and connections that are
/// being refused.
const OTHER_FILES: u64 = 256;
/// Connections that are being told that there are too many, which takes up to a second each. More are
/// closed without a word.
const FAREWELLS_MAX: usize = 128;

/// Places for connections.
#[derive(Debug)]
pub(crate) struct Seats {
    max: usize,
    taken: AtomicUsize,
    farewells: Semaphore,
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
        Arc::new(Self { max, taken: AtomicUsize::new(0), farewells: Semaphore::new(FAREWELLS_MAX) })
    }

    /// A place, if one is free.
    pub(crate) fn take(self: &Arc<Self>) -> Option<Seat> {
        let more = |taken| (taken < self.max).then_some(taken + 1);
        self.taken.fetch_update(Relaxed, Relaxed, more).ok()?;
        metrics::connection_opened();
        Some(Seat(Arc::clone(self)))
    }

    /// The right to be told that no place is free, if not too many are being told.
    pub(super) fn farewell(&self) -> Option<SemaphorePermit<'_>> {
        self.farewells.try_acquire().ok()
    }

    /// More connections than there ever are at once, those that are turned away among them.
    pub(crate) fn ceiling(&self) -> usize {
        self.max.saturating_add(FAREWELLS_MAX).saturating_add(1)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Relaxed);
        metrics::connection_closed();
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
    use crate::metrics::tests::{Shown, metrics_of};

    #[test]
    fn a_place_is_had_once_and_comes_back() {
        let seats = Seats::new(2);
        let first = seats.take().expect("a place");
        let _second = seats.take().expect("a place");
        assert!(seats.take().is_none());
        drop(first);
        assert!(seats.take().is_some());
    }

    #[test]
    fn farewells_are_bounded_and_come_back() {
        let seats = Seats::new(2);
        let mut saying: Vec<_> = std::iter::from_fn(|| seats.farewell()).collect();
        assert_eq!(saying.len(), FAREWELLS_MAX);
        saying.pop();
        assert!(seats.farewell().is_some());
        assert!(seats.ceiling() > 2 + FAREWELLS_MAX);
    }

    #[test]
    fn the_gauge_is_changed_and_not_set() {
        let shown = Shown::default();
        metrics_of(&shown, || {
            let (one, other) = (Seats::new(2), Seats::new(2));
            let places = [one.take(), one.take(), other.take()];
            assert_eq!(shown.value(), 3);
            drop(places);
        });
        assert_eq!(shown.value(), 0);
    }
}
