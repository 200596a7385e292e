//! The one clock of a run.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use units::{Micros, Span};

/// Microseconds since the run began, and when that was.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    origin: Instant,
    unix_us: u64,
}

impl Clock {
    /// A clock that begins `delay` from now: until then it says 0.
    pub(crate) fn starting_in(delay: Duration) -> Self {
        let since_epoch = SystemTime::now() + delay;
        let unix = since_epoch.duration_since(UNIX_EPOCH).unwrap_or_default();
        let unix_us = u64::try_from(unix.as_micros()).unwrap_or(u64::MAX);
        Self { origin: Instant::now() + delay, unix_us }
    }

    pub(crate) fn now(&self) -> Micros {
        let since = Instant::now().saturating_duration_since(self.origin);
        Micros(u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
    }

    /// When the clock shows `at`.
    pub(crate) fn instant(&self, at: Micros) -> Instant {
        self.origin + duration(Span(at.0))
    }

    /// When the run began, in microseconds since 1970.
    pub(crate) const fn unix_us(&self) -> u64 {
        self.unix_us
    }
}

/// The same span for the standard library.
pub(crate) const fn duration(span: Span) -> Duration {
    Duration::from_micros(span.0)
}
