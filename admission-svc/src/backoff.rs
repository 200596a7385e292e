//! Pauses between attempts to reach an engine.

use std::time::Duration;

use rand::{Rng, RngExt as _};

const FIRST_MS: f64 = 100.0;
const LAST_MS: f64 = 1_000.0;

/// Pauses that double from 100 ms to 1 s, each scattered by a quarter, so that services which lost an
/// engine together do not return to it together.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    failures: i32,
}

impl Backoff {
    /// How long to wait now.
    pub(crate) fn pause(&mut self, rng: &mut impl Rng) -> Duration {
        let base_ms = (FIRST_MS * 2_f64.powi(self.failures.min(8))).min(LAST_MS);
        self.failures = self.failures.saturating_add(1);
        Duration::from_secs_f64(base_ms / 1e3 * (0.75 + 0.5 * rng.random::<f64>()))
    }

    /// It worked.
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;
    use rand_chacha::ChaCha8Rng;

    use super::*;

    #[test]
    fn pauses_grow_to_about_a_second_and_start_again() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let mut backoff = Backoff::default();
        let pauses: Vec<_> = (0..40).map(|_| backoff.pause(&mut rng).as_millis()).collect();
        assert!((75..=125).contains(&pauses[0]), "{pauses:?}");
        assert!(pauses[6..].iter().all(|pause| (750..=1_250).contains(pause)), "{pauses:?}");
        backoff.reset();
        assert!(backoff.pause(&mut rng).as_millis() <= 125);
    }
}
