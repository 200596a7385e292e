//! How much later than simulated.

use units::{Micros, Span};

/// Part of a delay that does not shrink with the time ahead, in seconds.
const ROOT_S: f64 = 0.1;

/// Times are stretched, and moved by a little that does not depend on them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Doubt {
    factor: f64,
    shift_us: f64,
}

impl Doubt {
    /// A machine that is slower than believed by this logarithm.
    pub(crate) fn of(slower: f64) -> Self {
        let factor = slower.clamp(-2.0, 4.0).exp();
        Self { factor, shift_us: ROOT_S * 1e6 * (factor - 1.0) }
    }

    /// When something simulated for `at` happens.
    pub(crate) fn apply(self, now: Micros, at: Micros) -> Micros {
        if at == Micros(u64::MAX) {
            return at;
        }
        let ahead = at.since(now).0 as f64 * self.factor + self.shift_us;
        now + Span::from_secs_f64(ahead / 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slower_machine_is_later_by_a_share_and_a_little() {
        let now = Micros(1_000_000);
        let twice = Doubt::of(2_f64.ln());
        assert_eq!(twice.apply(now, now + Span::from_secs(1)), now + Span::from_millis(2_100));
        assert_eq!(Doubt::of(0.0).apply(now, Micros(5_000_000)), Micros(5_000_000));
        assert_eq!(twice.apply(now, Micros(u64::MAX)), Micros(u64::MAX));
    }

    #[test]
    fn odd_logarithms_stay_finite() {
        for slower in [f64::INFINITY, f64::NEG_INFINITY, 1e9] {
            let at = Doubt::of(slower).apply(Micros(0), Micros(1_000_000));
            assert!(at < Micros(u64::MAX), "{slower}: {at:?}");
        }
    }
}
