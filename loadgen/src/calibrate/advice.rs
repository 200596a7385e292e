//! What follows from the measurements: which rates to offer, and which targets to set.

use serde::Serialize;

use super::measure::{Found, Request};
use crate::summary::quantile;

/// Rates as parts of the capacity: from comfortable to hopeless, dense where a server bends.
const GRID: [f64; 7] = [0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0];

/// What is proposed.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Advice {
    /// Of whole requests on an idle server, computed from lengths and speeds.
    pub(super) unloaded_e2e_p50_ms: f64,
    pub(super) unloaded_e2e_p90_ms: f64,
    pub(super) unloaded_e2e_p95_ms: f64,
    /// Requests a second, one after the other.
    pub(super) serial_rps: f64,
    /// The same if it always answered as many at once as is fastest.
    pub(super) capacity_rps: f64,
    pub(super) fastest_width: u32,
    pub(super) rates: Vec<f64>,
    pub(super) e2e_ms: f64,
    pub(super) ttft_ms: f64,
    pub(super) itl_ms: f64,
}

impl Advice {
    pub(super) fn of(found: &Found) -> Self {
        let alone = found.decode.first();
        let gap_ms = alone.map_or(0.0, |decode| decode.gap_ms);
        let fastest =
            found.decode.iter().max_by(|one, two| one.tokens_per_s.total_cmp(&two.tokens_per_s));
        let fastest_rate = fastest.map_or(1.0, |decode| decode.tokens_per_s);
        let mut e2e =
            found.requests.iter().map(|request| found.e2e_ms(request, gap_ms)).collect::<Vec<_>>();
        e2e.sort_by(f64::total_cmp);
        let mean = |values: &mut dyn Iterator<Item = f64>| {
            values.sum::<f64>() / found.requests.len().max(1) as f64
        };
        let serial_ms = e2e.iter().sum::<f64>() / e2e.len().max(1) as f64;
        let prefill_ms = mean(
            &mut found.requests.iter().map(|request| found.prefill_ms(found.uncached(request))),
        );
        let decode_ms = mean(
            &mut found
                .requests
                .iter()
                .map(|request| request.cap * found.answered_share * 1_000.0 / fastest_rate),
        );
        let capacity_rps = 1_000.0 / (prefill_ms + decode_ms).max(1e-3);
        let wide = found.decode.iter().rfind(|decode| decode.width <= 8);
        Self {
            unloaded_e2e_p50_ms: quantile(&e2e, 0.5),
            unloaded_e2e_p90_ms: quantile(&e2e, 0.9),
            unloaded_e2e_p95_ms: quantile(&e2e, 0.95),
            serial_rps: 1_000.0 / serial_ms.max(1e-3),
            capacity_rps,
            fastest_width: fastest.map_or(1, |decode| decode.width),
            rates: GRID.iter().map(|part| digits(part * capacity_rps)).collect(),
            e2e_ms: round_up(quantile(&e2e, 0.9)),
            ttft_ms: round_up(2.5 * (found.prefill.base_ms + found.prefill_ms(found.prompt.p95))),
            itl_ms: round_up(3.0 * wide.map_or(gap_ms, |decode| decode.gap_ms)),
        }
    }
}

impl Found {
    /// Of a prompt with so many made tokens that are not cached.
    fn prefill_ms(&self, made: f64) -> f64 {
        made * self.prefill.tokens_per_made * self.prefill.per_token_ms
    }

    /// Made tokens of a request that are computed, if all that is shared and can be cached is.
    fn uncached(&self, request: &Request) -> f64 {
        request.prompt - request.shared * self.prefill.cached_share
    }

    /// Of a request on an idle server.
    fn e2e_ms(&self, request: &Request, gap_ms: f64) -> f64 {
        let answer = request.cap * self.answered_share;
        self.prefill.base_ms + self.prefill_ms(self.uncached(request)) + answer * gap_ms
    }
}

/// Two digits that count.
fn digits(value: f64) -> f64 {
    // By way of text: a product with a power of ten would show its rounding.
    format!("{value:.1e}").parse().unwrap_or(value)
}

/// Up to 1, 1.5, 2, 2.5, 3, 4, 5, 6 or 8 of a power of ten.
fn round_up(value: f64) -> f64 {
    if value <= 0.0 {
        return 1.0;
    }
    let unit = 10_f64.powi(exponent(value));
    let steps = [1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0];
    let step = steps.into_iter().find(|step| step * unit >= value);
    digits(step.unwrap_or(10.0) * unit)
}

fn exponent(value: f64) -> i32 {
    #[expect(clippy::cast_possible_truncation, reason = "float to int casts saturate")]
    let exponent = value.log10().floor() as i32;
    exponent
}

#[cfg(test)]
mod tests {
    use super::{
        super::measure::{Decode, Lengths, Prefill},
        *,
    };

    #[test]
    fn numbers_are_round() {
        assert_eq!([0.1234, 1.29, 2.7525, 7.34, 0.0].map(digits), [0.12, 1.3, 2.8, 7.3, 0.0]);
        assert_eq!(round_up(0.14), 0.15);
        assert_eq!([3_400.0, 101.0, 99.0, 0.0].map(round_up), [4_000.0, 150.0, 100.0, 1.0]);
    }

    /// The seed's machine, by its own table.
    #[test]
    fn the_seeds_numbers_give_the_seeds_grid() {
        let lengths = Lengths { p50: 541.0, mean: 541.0, p95: 639.0, max: 648.0 };
        let decode =
            |width, tokens_per_s, gap_ms| Decode { width, together: true, tokens_per_s, gap_ms };
        let found = Found {
            workload: "cadence".into(),
            prompt: lengths,
            answer: lengths,
            shareable: 0.6,
            prefill: Prefill {
                base_ms: 0.0,
                per_token_ms: 1_000.0 / 1_641.0,
                tokens_per_made: 1.0,
                cached_share: 0.0,
            },
            decode: vec![decode(1, 81.5, 12.3), decode(16, 314.6, 50.9)],
            unloaded_e2e_ms: Vec::new(),
            answered_share: 1.0,
            requests: vec![Request { prompt: 541.0, shared: 300.0, cap: 136.0 }],
        };
        let advice = Advice::of(&found);
        // It computed 0.50 and 1.31.
        assert!((advice.serial_rps - 0.5).abs() < 0.01, "{}", advice.serial_rps);
        assert!((advice.capacity_rps - 1.31).abs() < 0.01, "{}", advice.capacity_rps);
        assert_eq!(advice.rates.first(), Some(&0.33));
    }
}
