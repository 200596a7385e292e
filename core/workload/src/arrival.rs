//! When requests arrive.

use units::{Micros, Span};

use crate::draws::Draws;

/// Arrivals that a schedule holds at most: 80 MB of them.
pub const ARRIVALS_MAX: usize = 10_000_000;

/// An open-loop arrival process: what the server does never changes it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrivals {
    /// Independent users: exponential gaps.
    Poisson {
        /// Requests a second.
        rate: f64,
    },
    /// A metronome. It understates queueing.
    Constant {
        /// Requests a second.
        rate: f64,
    },
    /// Gamma gaps: bursts below a burstiness of 1, regularity above; 1 is Poisson.
    Gamma {
        /// Requests a second.
        rate: f64,
        /// Shape of the gaps; their coefficient of variation is 1 / sqrt(burstiness).
        burstiness: f64,
    },
}

/// A process that cannot be scheduled.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum ArrivalError {
    /// No rate, or none that can be.
    #[error("a rate is above 0 and at most 1000000 requests a second, not {0}")]
    Rate(f64),
    /// The same for burstiness.
    #[error("a burstiness is from 0.001 to 1000, not {0}")]
    Burstiness(f64),
    /// More than [`ARRIVALS_MAX`].
    #[error("a schedule holds at most {ARRIVALS_MAX} requests: lower the rate or the duration")]
    TooMany,
}

impl Arrivals {
    /// Requests a second in the long run.
    #[must_use]
    pub fn rate(&self) -> f64 {
        match *self {
            Self::Poisson { rate } | Self::Constant { rate } | Self::Gamma { rate, .. } => rate,
        }
    }

    /// Every arrival before `duration`, in order, counted from the start of the run.
    ///
    /// # Errors
    /// The process makes no sense or asks for too many arrivals.
    pub fn schedule(&self, duration: Span, seed: u64) -> Result<Vec<Micros>, ArrivalError> {
        self.check()?;
        let mut draws = Draws::new(seed, Draws::ARRIVALS);
        let mut arrivals = Vec::new();
        let mut secs = 0.0;
        loop {
            secs += self.gap(&mut draws);
            let at = Span::from_secs_f64(secs);
            if at >= duration {
                return Ok(arrivals);
            }
            if arrivals.len() == ARRIVALS_MAX {
                return Err(ArrivalError::TooMany);
            }
            arrivals.push(Micros(at.0));
        }
    }

    fn check(&self) -> Result<(), ArrivalError> {
        let rate = self.rate();
        if !(rate > 0.0 && rate <= 1e6) {
            return Err(ArrivalError::Rate(rate));
        }
        match *self {
            Self::Gamma { burstiness, .. } if !(0.001..=1_000.0).contains(&burstiness) => {
                Err(ArrivalError::Burstiness(burstiness))
            }
            Self::Poisson { .. } | Self::Constant { .. } | Self::Gamma { .. } => Ok(()),
        }
    }

    fn gap(&self, draws: &mut Draws) -> f64 {
        match *self {
            Self::Poisson { rate } => draws.exponential() / rate,
            Self::Constant { rate } => 1.0 / rate,
            Self::Gamma { rate, burstiness } => draws.gamma(burstiness) / (rate * burstiness),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Span = Span::from_secs(3_600);

    fn gaps(arrivals: Arrivals) -> Vec<f64> {
        let at = arrivals.schedule(HOUR, 3).expect("valid");
        at.windows(2).map(|pair| pair[1].since(pair[0]).as_secs_f64()).collect()
    }

    /// Coefficient of variation: 1 for Poisson, 0 for a metronome.
    fn variation(gaps: &[f64]) -> f64 {
        let n = gaps.len() as f64;
        let mean = gaps.iter().sum::<f64>() / n;
        (gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / n).sqrt() / mean
    }

    #[test]
    fn every_process_keeps_its_rate_and_its_burstiness() {
        let cases = [
            (Arrivals::Poisson { rate: 5.0 }, 1.0),
            (Arrivals::Constant { rate: 5.0 }, 0.0),
            (Arrivals::Gamma { rate: 5.0, burstiness: 0.25 }, 2.0),
            (Arrivals::Gamma { rate: 5.0, burstiness: 4.0 }, 0.5),
        ];
        for (arrivals, expected) in cases {
            let gaps = gaps(arrivals);
            let rate = gaps.len() as f64 / 3_600.0;
            assert!((rate - 5.0).abs() < 0.2, "{arrivals:?}: rate {rate}");
            let found = variation(&gaps);
            assert!((found - expected).abs() < 0.05, "{arrivals:?}: variation {found}");
        }
    }

    #[test]
    fn nothing_arrives_at_or_after_the_end() {
        let at = Arrivals::Constant { rate: 10.0 }.schedule(Span::from_secs(1), 0);
        assert_eq!(at.expect("valid").len(), 9);
        let none = Arrivals::Poisson { rate: 1.0 }.schedule(Span::ZERO, 0);
        assert_eq!(none, Ok(Vec::new()));
    }

    #[test]
    fn what_makes_no_sense_is_an_error() {
        let schedule = |arrivals: Arrivals| arrivals.schedule(HOUR, 0).map(|_| ());
        for rate in [0.0, -1.0, f64::INFINITY] {
            assert_eq!(schedule(Arrivals::Poisson { rate }), Err(ArrivalError::Rate(rate)));
        }
        assert!(schedule(Arrivals::Constant { rate: f64::NAN }).is_err());
        let gamma = Arrivals::Gamma { rate: 1.0, burstiness: 0.0 };
        assert_eq!(schedule(gamma), Err(ArrivalError::Burstiness(0.0)));
        assert_eq!(schedule(Arrivals::Constant { rate: 1e6 }), Err(ArrivalError::TooMany));
    }
}
