//! When a process that died is started again, and when there is no point.

use std::time::Duration;

const DELAY_FIRST: Duration = Duration::from_millis(100);
const DELAY_MAX: Duration = Duration::from_secs(5);
/// A process that lived this long starts again as if for the first time.
const HEALTHY_AFTER: Duration = Duration::from_secs(30);
/// The services' exit code when they cannot run as they are configured: bad settings, a broken model, a
/// busy address. A large model may take minutes until it is refused.
const REFUSED: i32 = 78;
/// Refusals in a row after which even a configuration that worked before is given up.
const REFUSALS_MAX: u32 = 3;
const FAILED_STARTS_MAX: u32 = 5;

/// How a process ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Death {
    /// How long it lived.
    pub(crate) lived: Duration,
    /// Its exit code; none after a signal.
    pub(crate) code: Option<i32>,
    /// Whether all of Cadence was ready once in this run: then its settings are good.
    pub(crate) was_ready: bool,
}

/// What to do about a death.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Start again, but not at once.
    Restart { after: Duration },
    /// Starting again would end the same way.
    GiveUp,
}

/// The deaths of one process, as far as they matter.
#[derive(Debug)]
pub(crate) struct Restarts {
    delay: Duration,
    deaths: u32,
    refusals: u32,
}

impl Restarts {
    /// Nothing died yet.
    pub(crate) fn new() -> Self {
        Self { delay: DELAY_FIRST, deaths: 0, refusals: 0 }
    }

    /// Counts a death and judges it.
    pub(crate) fn died(&mut self, death: Death) -> Verdict {
        let refused = death.code == Some(REFUSED);
        if death.lived >= HEALTHY_AFTER && death.was_ready && !refused {
            *self = Self::new();
        }
        self.deaths += 1;
        self.refusals = if refused { self.refusals + 1 } else { 0 };

        let (refusals_max, deaths_max) =
            if death.was_ready { (REFUSALS_MAX, u32::MAX) } else { (1, FAILED_STARTS_MAX) };
        if self.refusals >= refusals_max || self.deaths >= deaths_max {
            return Verdict::GiveUp;
        }
        let after = self.delay;
        self.delay = (self.delay * 2).min(DELAY_MAX);
        Verdict::Restart { after }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CRASH: Death = Death { lived: Duration::from_secs(1), code: None, was_ready: true };
    const REFUSAL: Death = Death { code: Some(REFUSED), ..CRASH };

    fn restart(millis: u64) -> Verdict {
        Verdict::Restart { after: Duration::from_millis(millis) }
    }

    #[test]
    fn the_delay_doubles_up_to_its_limit() {
        let mut restarts = Restarts::new();
        for millis in [100, 200, 400, 800, 1600, 3200, 5000, 5000] {
            assert_eq!(restarts.died(CRASH), restart(millis));
        }
    }

    #[test]
    fn a_long_life_forgives() {
        let mut restarts = Restarts::new();
        restarts.died(CRASH);
        restarts.died(CRASH);
        assert_eq!(restarts.died(Death { lived: HEALTHY_AFTER, ..CRASH }), restart(100));
        assert_eq!(restarts.died(CRASH), restart(200));
    }

    #[test]
    fn a_configuration_that_is_refused_at_the_start_is_not_tried_again() {
        for lived in [Duration::ZERO, HEALTHY_AFTER * 10] {
            let death = Death { was_ready: false, lived, ..REFUSAL };
            assert_eq!(Restarts::new().died(death), Verdict::GiveUp);
        }
    }

    #[test]
    fn who_loads_for_long_and_never_is_ready_is_given_up() {
        let mut restarts = Restarts::new();
        let death = Death { lived: HEALTHY_AFTER * 2, code: None, was_ready: false };
        for _ in 1..FAILED_STARTS_MAX {
            assert_ne!(restarts.died(death), Verdict::GiveUp);
        }
        assert_eq!(restarts.died(death), Verdict::GiveUp);
    }

    #[test]
    fn one_that_worked_before_has_to_be_refused_again_and_again() {
        let mut restarts = Restarts::new();
        assert_eq!(restarts.died(REFUSAL), restart(100));
        assert_eq!(restarts.died(REFUSAL), restart(200));
        assert_eq!(restarts.died(REFUSAL), Verdict::GiveUp);
    }

    #[test]
    fn other_deaths_break_the_row_of_refusals() {
        let mut restarts = Restarts::new();
        for death in [REFUSAL, REFUSAL, CRASH, REFUSAL, REFUSAL] {
            assert_ne!(restarts.died(death), Verdict::GiveUp);
        }
    }

    #[test]
    fn what_never_started_is_given_up() {
        let mut restarts = Restarts::new();
        let death = Death { was_ready: false, code: Some(1), ..CRASH };
        for _ in 1..FAILED_STARTS_MAX {
            assert_ne!(restarts.died(death), Verdict::GiveUp);
        }
        assert_eq!(restarts.died(death), Verdict::GiveUp);
    }
}
