//! How far off a model is, and how far apart equal steps are.

use std::collections::BTreeMap;

use sched::StepCost;
use serde::{Deserialize, Serialize};
use units::Span;

use super::{Composition, Course, Measured};

/// A model may be off by this, at the median and for 95 of 100 steps.
const MEDIAN_MAX: f64 = 0.05;
const P95_MAX: f64 = 0.15;
/// Or by this many times what equal steps are apart: no model can know more than that.
const SPREADS_MAX: f64 = 1.5;
/// Fewer equal steps say nothing of how far apart they are.
const EQUALS_MIN: usize = 3;

/// Steps of one kind. Errors are parts of the time that a step took.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Residual {
    /// Which steps.
    pub kind: String,
    /// How many.
    pub steps: u64,
    /// The error that half of them stay below.
    pub error_p50: f64,
    /// The error that 95 of 100 stay below.
    pub error_p95: f64,
    /// How far half of them are at most from the median of steps that are equal to them.
    pub spread_p50: f64,
    /// How far 95 of 100 are.
    pub spread_p95: f64,
}

impl Residual {
    /// Whether the model is as good as it should be: off by 5 % at the median and 15 % for 95 of 100, or
    /// by half as much again as equal steps are apart.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.error_p50 <= MEDIAN_MAX.max(SPREADS_MAX * self.spread_p50)
            && self.error_p95 <= P95_MAX.max(SPREADS_MAX * self.spread_p95)
    }
}

/// The errors of the model over what was measured, by kind of step; last, over all of it. Each step is
/// predicted as a scheduler would have: by a model whose gain has followed the steps before it.
#[must_use]
pub fn residuals(course: &Course, mut cost: StepCost) -> Vec<Residual> {
    let mut kinds: BTreeMap<(u8, u32), Errors> = BTreeMap::new();
    let mut all = Errors::default();
    let medians = course.medians();
    for (composition, Measured { shape, took }) in course.steps() {
        let error = apart(cost.predict(*shape), *took);
        cost.observe(*shape, *took);
        let equals = medians.get(composition).filter(|(_, count)| *count >= EQUALS_MIN);
        let spread = equals.map(|(median, _)| apart(*took, median.took));
        kinds.entry(kind(composition)).or_default().add(error, spread);
        all.add(error, spread);
    }
    let each = kinds.into_iter().map(|(kind, errors)| errors.told(name(kind)));
    each.chain([all.told("all".into())]).collect()
}

/// How far `one` is from `other`, as a part of it.
fn apart(one: Span, other: Span) -> f64 {
    (one.as_secs_f64() / other.as_secs_f64().max(1e-6) - 1.0).abs()
}

#[derive(Debug, Default)]
struct Errors {
    errors: Vec<f64>,
    spreads: Vec<f64>,
}

impl Errors {
    fn add(&mut self, error: f64, spread: Option<f64>) {
        self.errors.push(error);
        self.spreads.extend(spread);
    }

    fn told(mut self, kind: String) -> Residual {
        let steps = self.errors.len() as u64;
        let [error_p50, error_p95] = [0.5, 0.95].map(|part| quantile(&mut self.errors, part));
        let [spread_p50, spread_p95] = [0.5, 0.95].map(|part| quantile(&mut self.spreads, part));
        Residual { kind, steps, error_p50, error_p95, spread_p50, spread_p95 }
    }
}

/// The value that this part of them does not exceed; 0 of none.
#[expect(clippy::cast_possible_truncation, reason = "an index")]
#[expect(clippy::cast_sign_loss, reason = "parts are not negative")]
fn quantile(values: &mut [f64], part: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = ((values.len() as f64 * part).ceil() as usize).saturating_sub(1);
    values.get(at).copied().unwrap_or_default()
}

/// Decodes alone, prompts alone, or both; and how many of what there is more to say of.
fn kind(composition: &Composition) -> (u8, u32) {
    let Composition { decodes, prefill, .. } = *composition;
    match (decodes, prefill) {
        (_, 0) => (0, decodes.next_power_of_two()),
        (0, 1..32) => (1, 1),
        (0, 32..128) => (1, 32),
        (0, _) => (1, 128),
        (_, 1..32) => (2, 1),
        (_, 32..128) => (2, 32),
        (_, _) => (2, 128),
    }
}

fn name((kind, from): (u8, u32)) -> String {
    let rows = match from {
        1 => "1 to 31",
        32 => "32 to 127",
        _ => "128 and more",
    };
    match (kind, from) {
        (0, 1 | 2) => format!("{from} decoding"),
        (0, to) => format!("{} to {to} decoding", to / 2 + 1),
        (1, _) => format!("prompt of {rows}"),
        (_, _) => format!("decoding, prompt of {rows}"),
    }
}

#[cfg(test)]
mod tests {
    use sched::StepShape;

    use super::*;

    fn course(steps: &[(u32, u32, u64)]) -> Course {
        let mut course = Course::default();
        for &(decodes, prefill, took) in steps {
            let composition = Composition { decodes, prefill, ..Composition::default() };
            let shape = StepShape { decodes, prefill, ..StepShape::default() };
            course.add(composition, Measured { shape, took: Span(took) });
        }
        course
    }

    #[test]
    fn errors_are_told_by_kind_beside_the_spread_of_equal_steps() {
        // 4 ms and 4 ms each; 2.2 ms a prompt token. The gain follows, little.
        let course = course(&[
            (1, 0, 8_000),
            (1, 0, 8_000),
            (1, 0, 8_000),
            (8, 0, 72_000),
            (0, 64, 144_800),
        ]);
        let told = residuals(&course, StepCost::GUESS);
        let row = |at: usize| {
            let it: &Residual = &told[at];
            let whole = |value: f64| (value * 100.0).round();
            let errors = [it.error_p50, it.error_p95, it.spread_p50, it.spread_p95].map(whole);
            (it.kind.as_str(), it.steps, errors, it.holds())
        };
        assert_eq!(row(0), ("1 decoding", 3, [0.0; 4], true));
        assert_eq!(row(1), ("5 to 8 decoding", 1, [50.0, 50.0, 0.0, 0.0], false));
        assert_eq!(row(2), ("prompt of 32 to 127", 1, [7.0, 7.0, 0.0, 0.0], false));
        assert_eq!((told.len(), row(3).0, row(3).1), (4, "all", 5));
    }

    #[test]
    fn nobody_can_know_more_than_equal_steps_tell() {
        let off = |error_p50, spread_p50| Residual {
            kind: String::new(),
            steps: 9,
            error_p50,
            error_p95: error_p50,
            spread_p50,
            spread_p95: spread_p50,
        };
        assert!(off(0.05, 0.0).holds() && !off(0.051, 0.0).holds());
        assert!(off(0.12, 0.08).holds() && !off(0.121, 0.08).holds());
    }
}
