//! Whether gaps are exponential: the test of Kolmogorov and Smirnov.

use units::Micros;

/// Result of a test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ks {
    /// Gaps tested.
    pub count: usize,
    /// The largest distance between the two distribution functions.
    pub distance: f64,
    /// Probability of a distance at least this large if the gaps are what they should be.
    pub p_value: f64,
}

/// Tests the gaps of `arrivals` (in order, the first counted from 0) against exponential gaps of a rate
/// that was known before. Absent where there are fewer than five: nothing could be said.
#[must_use]
pub fn exponential(arrivals: &[Micros], rate: f64) -> Option<Ks> {
    let before = std::iter::once(&Micros(0)).chain(arrivals);
    let gaps = arrivals.iter().zip(before).map(|(at, before)| at.since(*before).as_secs_f64());
    let mut shares: Vec<f64> = gaps.map(|gap| -libm::expm1(-gap * rate)).collect();
    if shares.len() < 5 {
        return None;
    }
    shares.sort_by(f64::total_cmp);
    let n = shares.len() as f64;
    let ranked = shares.iter().enumerate();
    let distance = ranked.fold(0.0, |most: f64, (rank, share)| {
        let below = rank as f64 / n;
        most.max(share - below).max(below + 1.0 / n - share)
    });
    Some(Ks { count: shares.len(), distance, p_value: p_value(distance, n) })
}

/// Kolmogorov's limit with Stephens' correction for small samples.
fn p_value(distance: f64, n: f64) -> f64 {
    let root = n.sqrt();
    let scaled = (root + 0.12 + 0.11 / root) * distance;
    // Below this the series converges slowly, and the answer is 1 to six digits.
    if scaled < 0.25 {
        return 1.0;
    }
    let term = |k: i32| {
        let k = f64::from(k);
        libm::exp(-2.0 * k * k * scaled * scaled)
    };
    let sum: f64 = (1..=100).map(|k| if k % 2 == 1 { term(k) } else { -term(k) }).sum();
    (2.0 * sum).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use units::Span;

    use super::*;
    use crate::Arrivals;

    fn p_of(arrivals: Arrivals, seed: u64) -> f64 {
        let at = arrivals.schedule(Span::from_secs(180), seed).expect("valid");
        exponential(&at, 1.4).expect("enough").p_value
    }

    #[test]
    fn poisson_passes_as_often_as_it_should() {
        let rejected =
            (0..400).filter(|seed| p_of(Arrivals::Poisson { rate: 1.4 }, *seed) < 0.05).count();
        // 20 expected, SD 4.4: three of them.
        assert!((7..=33).contains(&rejected), "{rejected} of 400");
    }

    #[test]
    fn other_processes_fail() {
        assert!(p_of(Arrivals::Constant { rate: 1.4 }, 0) < 1e-6);
        assert!(p_of(Arrivals::Gamma { rate: 1.4, burstiness: 0.3 }, 0) < 1e-6);
        assert!(p_of(Arrivals::Poisson { rate: 2.0 }, 0) < 0.01);
    }

    #[test]
    fn known_points_of_the_limit_distribution() {
        // Critical values at 5 % and 1 % for large samples.
        assert!((p_value(1.358 / 1e4, 1e8) - 0.05).abs() < 0.001);
        assert!((p_value(1.628 / 1e4, 1e8) - 0.01).abs() < 0.001);
        assert_eq!(exponential(&[Micros(1); 4], 1.0), None);
    }
}
