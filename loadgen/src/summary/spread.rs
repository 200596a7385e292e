//! How values are spread.

use serde::Serialize;
use units::Span;

/// Of many spans, in milliseconds. Quantiles are interpolated between the two nearest values.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Spread {
    pub(crate) count: usize,
    pub(crate) mean: f64,
    pub(crate) sd: f64,
    pub(crate) p50: f64,
    pub(crate) p90: f64,
    pub(crate) p95: f64,
    pub(crate) p99: f64,
    pub(crate) max: f64,
}

impl Spread {
    /// Absent where there are no values.
    pub(crate) fn of(spans: impl IntoIterator<Item = Span>) -> Option<Self> {
        let mut values: Vec<f64> = spans.into_iter().map(|span| span.as_secs_f64() * 1e3).collect();
        values.sort_by(f64::total_cmp);
        let (count, max) = (values.len(), *values.last()?);
        let mean = values.iter().sum::<f64>() / count as f64;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let at = |share| quantile(&values, share);
        Some(Self {
            count,
            mean,
            sd: (squares / count as f64).sqrt(),
            p50: at(0.5),
            p90: at(0.9),
            p95: at(0.95),
            p99: at(0.99),
            max,
        })
    }
}

/// The value below which `share` of the sorted `values` lie; they are not empty.
pub(crate) fn quantile(values: &[f64], share: f64) -> f64 {
    let place = share * (values.len() - 1) as f64;
    #[expect(clippy::cast_possible_truncation, reason = "between 0 and the length")]
    #[expect(clippy::cast_sign_loss, reason = "between 0 and the length")]
    let below = place.floor() as usize;
    let above = values[(below + 1).min(values.len() - 1)];
    values[below] + (above - values[below]) * (place - place.floor())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_lie_between_the_nearest_values() {
        let spread = Spread::of((1..=101).map(Span::from_millis)).expect("values");
        assert_eq!((spread.p50, spread.p99, spread.max), (51.0, 100.0, 101.0));
        assert_eq!(spread.mean, 51.0);
        assert_eq!(quantile(&[1.0, 2.0], 0.25), 1.25);
        assert_eq!(quantile(&[7.0], 0.99), 7.0);
        assert_eq!(Spread::of([]), None);
    }
}
