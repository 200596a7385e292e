//! The only reader of the clocks.

use std::time::{Instant, SystemTime};

use units::Micros;

/// A monotonic clock that starts at zero when it is made. Clones share the origin.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: Instant,
}

impl Clock {
    /// A clock that starts now.
    #[must_use]
    pub fn start() -> Self {
        Self { origin: Instant::now() }
    }

    /// Time since the start.
    #[must_use]
    pub fn now(&self) -> Micros {
        Micros(u64::try_from(self.origin.elapsed().as_micros()).unwrap_or(u64::MAX))
    }
}

/// The calendar, since 1970, in UTC. For records that people and other machines read: it may step, so
/// nothing is timed by it. Zero before 1970.
#[must_use]
pub fn unix_now() -> Micros {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Micros(u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
}
