//! A limit on requests in the system that follows lateness: additive increase, multiplicative decrease.
//!
//! Chiu and Jain, "Analysis of the increase and decrease algorithms for congestion avoidance in computer
//! networks" (1989), with the two rules that the library `concurrency-limits` by Netflix adds in its
//! `AIMDLimit`: the limit only grows while it is used, and a timeout is what makes it fall.

use units::{Micros, Span};

/// What one late request leaves of the limit.
const BACKOFF: f64 = 0.9;
/// The limit falls at most once in this time: those who are late together are late for one reason.
const FALL_EVERY: Span = Span::from_millis(500);
/// The limit begins here.
const FIRST: f64 = 4.0;
/// A request that used this share of its budget counts as late: what comes later is late already.
pub(crate) const LATE_SHARE: f64 = 0.9;

/// The limit of one engine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Adaptive {
    limit: f64,
    fell_at: Micros,
}

impl Default for Adaptive {
    fn default() -> Self {
        Self { limit: FIRST, fell_at: Micros(0) }
    }
}

impl Adaptive {
    /// A request ended while so many were in the system.
    pub(crate) fn ended(&mut self, now: Micros, late: bool, in_system: u64, most: u64) {
        if !late {
            if 2.0 * in_system as f64 >= self.limit {
                self.limit = (self.limit + 1.0 / self.limit).min(most as f64).max(1.0);
            }
        } else if now.since(self.fell_at) >= FALL_EVERY {
            self.limit = (self.limit * BACKOFF).max(1.0);
            self.fell_at = now;
        }
    }

    /// Requests that may be in the system.
    pub(crate) fn limit(&self) -> u64 {
        #[expect(clippy::cast_possible_truncation, reason = "float to int casts saturate")]
        #[expect(clippy::cast_sign_loss, reason = "it is at least 1")]
        let limit = self.limit as u64;
        limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_finds_the_number_at_which_requests_become_late() {
        let mut adaptive = Adaptive::default();
        let mut now = Micros(0);
        for _ in 0..3_000 {
            now += Span::from_millis(100);
            let inside = adaptive.limit();
            adaptive.ended(now, inside > 10, inside, 64);
        }
        assert!((8..=11).contains(&adaptive.limit()), "{}", adaptive.limit());
    }

    #[test]
    fn it_neither_grows_unused_nor_falls_to_nothing() {
        let mut adaptive = Adaptive::default();
        (0..1_000).for_each(|_| adaptive.ended(Micros(0), false, 1, 64));
        assert_eq!(adaptive.limit(), 4);
        (0..1_000).for_each(|at| adaptive.ended(Micros(at * 1_000_000), true, 1, 64));
        assert_eq!(adaptive.limit(), 1);
    }
}
