//! What a step costs.
//!
//! A linear model of a step's shape, times a gain that follows the machine: when other work takes the
//! processor, every step slows by about the same factor, and the plan has to know it within a few
//! steps.

use units::Span;

/// What a step does, as far as its time depends on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepShape {
    /// Sequences that sample one more token.
    pub decodes: u32,
    /// Prompt tokens.
    pub prefill: u32,
    /// KV cells that all rows attend to together.
    pub cells: u64,
}

/// The time a step takes, in microseconds per unit. All at least 0 and finite; see
/// [`StepCost::validate`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepCost {
    /// Any step.
    pub base_us: f64,
    /// One sequence that samples one more token.
    pub per_decode_us: f64,
    /// One prompt token.
    pub per_prefill_token_us: f64,
    /// One attended cell.
    pub per_cell_us: f64,
    /// How much slower (above 1) or faster the machine is now. Above 0.
    pub gain: f64,
}

/// How far one step may pull the gain.
const GAIN_STEP: f64 = 0.1;
/// The gain stays between this and its inverse.
const GAIN_MAX: f64 = 64.0;

impl StepCost {
    /// The model of a laptop-class processor and a model of 135 million parameters: good enough
    /// to plan the first steps with, before anything was measured.
    pub const GUESS: Self = Self {
        base_us: 4_000.0,
        per_decode_us: 4_000.0,
        per_prefill_token_us: 2_200.0,
        per_cell_us: 0.0,
        gain: 1.0,
    };

    /// The expected time of a step.
    #[must_use]
    pub fn predict(&self, shape: StepShape) -> Span {
        Span::from_secs_f64(self.gain * self.plain_us(shape) / 1e6)
    }

    fn plain_us(&self, shape: StepShape) -> f64 {
        self.base_us
            + self.per_decode_us * f64::from(shape.decodes)
            + self.per_prefill_token_us * f64::from(shape.prefill)
            + self.per_cell_us * shape.cells as f64
    }

    /// Learns from a step that took `took`: moves the gain a tenth of the way, in logarithms, so that
    /// one stall moves it little and a machine that changed speed is followed in about 20 steps.
    pub fn observe(&mut self, shape: StepShape, took: Span) {
        let expected = self.plain_us(shape);
        if expected <= 0.0 || took == Span::ZERO {
            return;
        }
        let ratio = (took.0 as f64 / expected).clamp(1.0 / GAIN_MAX, GAIN_MAX);
        let gain = self.gain.powf(1.0 - GAIN_STEP) * ratio.powf(GAIN_STEP);
        self.gain = gain.clamp(1.0 / GAIN_MAX, GAIN_MAX);
    }

    /// The model that fits measured steps best: least squares of the relative error over base,
    /// decodes and prefill tokens, none negative. Cells keep no cost: the steps of a start-up are too
    /// short to show any. `None` if the steps do not determine it.
    #[must_use]
    pub fn fit(steps: &[(StepShape, Span)]) -> Option<Self> {
        let mut normal = [[0.0; 4]; 3];
        for (shape, took) in steps.iter().filter(|(_, took)| *took > Span::ZERO) {
            let weight = 1.0 / took.0 as f64;
            let row =
                [weight, weight * f64::from(shape.decodes), weight * f64::from(shape.prefill)];
            for (line, factor) in normal.iter_mut().zip(row) {
                for (cell, value) in line.iter_mut().zip([row[0], row[1], row[2], 1.0]) {
                    *cell += factor * value;
                }
            }
        }
        let [base, decode, prefill] = solve(normal)?;
        Some(Self {
            base_us: base.max(0.0),
            per_decode_us: decode.max(0.0),
            per_prefill_token_us: prefill.max(0.0),
            per_cell_us: 0.0,
            gain: 1.0,
        })
    }

    /// Checks the ranges.
    ///
    /// # Errors
    /// The name of the first parameter outside its range.
    pub fn validate(&self) -> Result<(), &'static str> {
        let times = [
            ("base_us", self.base_us),
            ("per_decode_us", self.per_decode_us),
            ("per_prefill_token_us", self.per_prefill_token_us),
            ("per_cell_us", self.per_cell_us),
        ];
        let bad = times.iter().find(|(_, value)| !(value.is_finite() && *value >= 0.0));
        match bad {
            Some((name, _)) => Err(name),
            None if !(self.gain.is_finite() && self.gain > 0.0) => Err("gain"),
            None => Ok(()),
        }
    }
}

/// Solves three equations, given with their right-hand sides, by elimination with pivoting.
fn solve(mut lines: [[f64; 4]; 3]) -> Option<[f64; 3]> {
    for column in 0..3 {
        let pivot = (column..3)
            .max_by(|&a, &b| lines[a][column].abs().total_cmp(&lines[b][column].abs()))
            .expect("the range is not empty");
        lines.swap(column, pivot);
        let pivot = lines[column];
        if pivot[column].abs() < 1e-12 {
            return None;
        }
        for (_, line) in lines.iter_mut().enumerate().filter(|(at, _)| *at != column) {
            let factor = line[column] / pivot[column];
            for (cell, value) in line.iter_mut().zip(pivot) {
                *cell -= factor * value;
            }
        }
    }
    Some([0, 1, 2].map(|at| lines[at][3] / lines[at][at]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(decodes: u32, prefill: u32) -> StepShape {
        StepShape { decodes, prefill, cells: 0 }
    }

    #[test]
    fn the_fit_finds_the_model_that_made_the_steps() {
        let truth = StepCost { base_us: 3_000.0, per_decode_us: 5_000.0, ..StepCost::GUESS };
        let shapes = [shape(1, 0), shape(2, 0), shape(0, 64), shape(1, 32), shape(4, 128)];
        let steps = shapes.map(|shape| (shape, truth.predict(shape)));
        let fitted = StepCost::fit(&steps).expect("determined");
        for shape in shapes {
            assert!(fitted.predict(shape).0.abs_diff(truth.predict(shape).0) <= 2);
        }
    }

    #[test]
    fn steps_of_one_shape_determine_nothing() {
        assert_eq!(StepCost::fit(&[(shape(1, 0), Span(9)), (shape(1, 0), Span(9))]), None);
        assert_eq!(StepCost::fit(&[]), None);
    }

    #[test]
    fn a_machine_at_half_speed_is_followed_and_a_stall_is_not() {
        let mut cost = StepCost::GUESS;
        let normal = cost.predict(shape(8, 0));
        cost.observe(shape(8, 0), normal.mul_f64(30.0));
        assert!(cost.gain < 1.5, "one stall: {}", cost.gain);
        for _ in 0..40 {
            cost.observe(shape(8, 0), normal.mul_f64(2.0));
        }
        assert!((cost.gain - 2.0).abs() < 0.05, "half speed: {}", cost.gain);
    }

    #[test]
    fn nonsense_is_named() {
        let named = |cost: StepCost| cost.validate();
        assert_eq!(named(StepCost::GUESS), Ok(()));
        assert_eq!(named(StepCost { base_us: -1.0, ..StepCost::GUESS }), Err("base_us"));
        assert_eq!(
            named(StepCost { per_cell_us: f64::NAN, ..StepCost::GUESS }),
            Err("per_cell_us")
        );
        assert_eq!(named(StepCost { gain: 0.0, ..StepCost::GUESS }), Err("gain"));
    }
}
