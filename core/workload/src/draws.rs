//! Seeded draws whose every bit is fixed.

use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng as _, SeedableRng as _},
};

/// The generator of one purpose: draws of different streams never mix, so that a longer schedule does
/// not change what is asked.
#[derive(Clone, Debug)]
pub struct Draws(ChaCha8Rng);

impl Draws {
    /// The stream of arrivals. Requests have the streams of their numbers.
    pub(crate) const ARRIVALS: u64 = u64::MAX;

    /// Stream `stream` of `seed`, from its beginning.
    #[must_use]
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut generator = ChaCha8Rng::seed_from_u64(seed);
        generator.set_stream(stream);
        Self(generator)
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// At least 0 and below 1, in steps of 2^-53.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A whole number below `end`, or 0 if `end` is 0. The bias is below `end` / 2^64.
    pub fn below(&mut self, end: u64) -> u64 {
        let wide = u128::from(self.bits()) * u128::from(end);
        u64::try_from(wide >> 64).expect("the upper half of a product of two u64")
    }

    /// Exponential with mean 1.
    pub fn exponential(&mut self) -> f64 {
        -libm::log(1.0 - self.unit())
    }

    /// Standard normal. Takes two draws (Box and Muller), so a sequence stays aligned.
    pub fn normal(&mut self) -> f64 {
        let radius = (2.0 * self.exponential()).sqrt();
        radius * libm::cos(std::f64::consts::TAU * self.unit())
    }

    /// Gamma with the given shape (above 0) and mean equal to it (Marsaglia and Tsang).
    pub fn gamma(&mut self, shape: f64) -> f64 {
        if shape < 1.0 {
            let boost = libm::pow(1.0 - self.unit(), 1.0 / shape);
            return self.gamma(shape + 1.0) * boost;
        }
        let d = shape - 1.0 / 3.0;
        let c = 1.0 / (9.0 * d).sqrt();
        loop {
            let x = self.normal();
            let base = 1.0 + c * x;
            let v = base * base * base;
            let accepts = -self.exponential() < 0.5 * x * x + d - d * v + d * libm::log(v);
            if v > 0.0 && accepts {
                return d * v;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moments(draws: &[f64]) -> (f64, f64) {
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        let variance = draws.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / draws.len() as f64;
        (mean, variance)
    }

    fn check(draw: impl Fn(&mut Draws) -> f64, mean: f64, variance: f64) {
        let mut draws = Draws::new(1, 0);
        let (m, v) = moments(&(0..40_000).map(|_| draw(&mut draws)).collect::<Vec<_>>());
        assert!((m - mean).abs() < 0.03, "mean {m}, not {mean}");
        assert!((v - variance).abs() < 0.05 * variance.max(1.0), "variance {v}, not {variance}");
    }

    #[test]
    fn draws_have_their_moments() {
        check(Draws::unit, 0.5, 1.0 / 12.0);
        check(Draws::exponential, 1.0, 1.0);
        check(Draws::normal, 0.0, 1.0);
        check(|draws| draws.gamma(0.5), 0.5, 0.5);
        check(|draws| draws.gamma(4.0), 4.0, 4.0);
    }

    #[test]
    fn streams_do_not_mix() {
        let first = |stream| Draws::new(7, stream).bits();
        assert_ne!(first(0), first(1));
        assert_eq!(Draws::new(7, 3).below(0), 0);
    }
}
