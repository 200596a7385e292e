//! How fast an engine works.

use units::Span;

use crate::Step;

/// Tokens a second that are assumed until anything is known: slow, so that nobody is called back
/// too early.
pub const RATE_DEFAULT: f64 = 50.0;

/// Busy time over which a change of speed is forgotten by 63 %.
const MEMORY_S: f64 = 5.0;
/// Busy time after which the measurement is believed.
const BELIEVED_S: f64 = 0.2;
/// Longer steps are the report of a broken clock, or count as this long.
const STEP_MAX_S: f64 = 60.0;

/// Tokens done over time spent in steps, older steps fading. Idle time does not count.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rate {
    tokens: f64,
    busy_s: f64,
    step_s: f64,
}

impl Rate {
    pub(crate) fn observe(&mut self, step: &Step) {
        // A step without work, or of no time, says nothing about speed.
        let tokens = f64::from(step.decodes.0) + f64::from(step.prefill.0);
        let took_s = step.took.as_secs_f64().min(STEP_MAX_S);
        if tokens == 0.0 || took_s == 0.0 {
            return;
        }
        let kept = (-took_s / MEMORY_S).exp();
        self.tokens = self.tokens * kept + tokens;
        self.busy_s = self.busy_s * kept + took_s;
        self.step_s = if self.step_s == 0.0 { took_s } else { 0.9 * self.step_s + 0.1 * took_s };
    }

    /// Tokens a second, once enough steps were seen.
    pub(crate) fn tokens_per_s(&self) -> Option<f64> {
        (self.busy_s >= BELIEVED_S).then(|| self.tokens / self.busy_s)
    }

    /// A typical step; zero before the first.
    pub(crate) fn step(&self) -> Span {
        Span::from_secs_f64(self.step_s)
    }
}

#[cfg(test)]
mod tests {
    use units::TokenCount;

    use super::*;

    fn step(took_ms: u64, decodes: u32) -> Step {
        let took = Span::from_millis(took_ms);
        Step {
            took,
            decodes: TokenCount(decodes),
            prefill: TokenCount(0),
            cells: 0,
            prefill_cells: 0,
        }
    }

    #[test]
    fn a_steady_engine_is_measured_exactly() {
        let mut rate = Rate::default();
        rate.observe(&step(40, 8));
        assert_eq!(rate.tokens_per_s(), None, "one step is not enough");
        (0..10).for_each(|_| rate.observe(&step(40, 8)));
        let measured = rate.tokens_per_s().expect("enough steps");
        assert!((measured - 200.0).abs() < 1e-9, "{measured}");
    }

    #[test]
    fn a_machine_that_slows_down_is_followed_within_seconds() {
        let mut rate = Rate::default();
        (0..1_000).for_each(|_| rate.observe(&step(40, 8)));
        (0..250).for_each(|_| rate.observe(&step(80, 8)));
        let measured = rate.tokens_per_s().expect("enough steps");
        assert!((100.0..103.0).contains(&measured), "{measured}");
    }

    #[test]
    fn steps_that_say_nothing_change_nothing() {
        let mut rate = Rate::default();
        (0..100).for_each(|_| rate.observe(&step(0, 8)));
        (0..100).for_each(|_| rate.observe(&step(40, 0)));
        assert_eq!((rate.tokens_per_s(), rate.step()), (None, Span::ZERO));
        rate.observe(&Step { took: Span(u64::MAX), ..step(0, 8) });
        rate.observe(&step(40, 8));
        assert!(rate.tokens_per_s().is_some_and(f64::is_finite));
    }
}
