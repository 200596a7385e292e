//! What one key may ask for. Pure: the clock is an argument.

use units::{Micros, Span};

const MINUTE: Span = Span::from_secs(60);

/// Limits of one key; 0 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Requests in a minute: so many at once, then evenly spread.
    pub(crate) per_minute: u32,
    /// Requests at the same time.
    pub(crate) concurrent: u32,
}

/// What a key has asked for of late.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Meter {
    limits: Limits,
    /// Time saved up, at most a minute; a request costs its part of a minute.
    credit: Span,
    counted_at: Micros,
    running: u32,
}

/// Why a key has to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Excess {
    Rate { limit: u32, wait: Span },
    Concurrent { limit: u32 },
}

impl Meter {
    /// A key that has not asked for anything.
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, credit: MINUTE, counted_at: Micros(0), running: 0 }
    }

    /// Counts a request in. What is refused costs nothing.
    ///
    /// # Errors
    /// A limit is reached.
    pub(crate) fn begin(&mut self, now: Micros) -> Result<(), Excess> {
        // A clock that steps back earns nothing, and one that steps ahead no more than a minute.
        self.credit = (self.credit + now.since(self.counted_at)).min(MINUTE);
        self.counted_at = now;
        let Limits { per_minute, concurrent } = self.limits;
        if concurrent > 0 && self.running >= concurrent {
            return Err(Excess::Concurrent { limit: concurrent });
        }
        if per_minute > 0 {
            // Rounded down: rounded up, the last of a minute's worth would not be paid for.
            let cost = Span((MINUTE.0 / u64::from(per_minute)).max(1));
            if self.credit < cost {
                let wait = cost.saturating_sub(self.credit);
                return Err(Excess::Rate { limit: per_minute, wait });
            }
            self.credit = self.credit.saturating_sub(cost);
        }
        self.running += 1;
        Ok(())
    }

    /// Counts a request out.
    pub(crate) fn end(&mut self) {
        self.running = self.running.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meter(per_minute: u32, concurrent: u32) -> Meter {
        Meter::new(Limits { per_minute, concurrent })
    }

    fn at(secs: u64) -> Micros {
        Micros(0) + Span::from_secs(secs)
    }

    #[test]
    fn a_minute_s_worth_at_once_and_then_evenly() {
        let mut meter = meter(6, 0);
        let now = at(1_000);
        assert_eq!((0..10).filter(|_| meter.begin(now).is_ok()).count(), 6);
        assert_eq!(meter.begin(now), Err(Excess::Rate { limit: 6, wait: Span::from_secs(10) }));
        let next = Excess::Rate { limit: 6, wait: Span::from_secs(1) };
        assert_eq!(meter.begin(at(1_009)), Err(next));
        assert_eq!(meter.begin(at(1_010)), Ok(()));
    }

    #[test]
    fn every_limit_lets_so_many_in_at_once() {
        for limit in [1, 2, 7, 11, 59, 61, 999, 7_001] {
            let mut meter = meter(limit, 0);
            let entered = (0..=limit).filter(|_| meter.begin(at(1)).is_ok()).count();
            assert_eq!(entered, limit as usize);
        }
        // As many as there are microseconds, and more, cost something.
        assert_eq!(meter(u32::MAX, 0).begin(at(1)), Ok(()));
    }

    #[test]
    fn who_waits_as_told_gets_in() {
        let mut meter = meter(7, 0);
        let mut now = at(0);
        for _ in 0..100 {
            while let Err(Excess::Rate { wait, .. }) = meter.begin(now) {
                assert!(wait > Span::ZERO && wait <= MINUTE);
                now += wait;
            }
        }
        // The first seven are free.
        assert!(now >= at(93 * 60 / 7), "{now:?}");
    }

    #[test]
    fn running_requests_are_bounded_and_cost_no_credit_when_refused() {
        let mut meter = meter(3, 2);
        let now = at(5);
        assert_eq!((meter.begin(now), meter.begin(now)), (Ok(()), Ok(())));
        assert_eq!(meter.begin(now), Err(Excess::Concurrent { limit: 2 }));
        meter.end();
        assert_eq!(meter.begin(now), Ok(()));
    }

    #[test]
    fn a_clock_that_steps_does_no_harm() {
        let mut meter = meter(2, 0);
        assert_eq!((meter.begin(at(90_000)), meter.begin(at(90_000))), (Ok(()), Ok(())));
        // An hour back: nothing is earned, nothing overflows, and time goes on from there.
        let refused = Excess::Rate { limit: 2, wait: Span::from_secs(30) };
        assert_eq!(meter.begin(at(86_400)), Err(refused));
        assert_eq!(meter.begin(at(86_430)), Ok(()));
        // A day ahead earns one minute.
        let ahead = at(200_000);
        assert_eq!((0..9).filter(|_| meter.begin(ahead).is_ok()).count(), 2);
    }

    #[test]
    fn no_limit_is_no_limit() {
        let mut meter = meter(0, 0);
        assert!((0..10_000).all(|_| meter.begin(at(0)).is_ok()));
    }
}
