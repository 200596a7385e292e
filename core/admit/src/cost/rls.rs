//! Weighted recursive least squares over a step's shape.

use sched::{StepCost, StepShape};

/// Decoding sequences at which the correction has a value; straight between them, and after the last.
const KNOTS: [f64; 5] = [1.0, 4.0, 8.0, 16.0, 24.0];
/// Knots, prompt tokens, any step, attended cells.
const TERMS: usize = KNOTS.len() + 3;
const PREFILL: usize = KNOTS.len();
const OFFSET: usize = PREFILL + 1;
const CELLS: usize = OFFSET + 1;

/// How much of a step's weight is left after each later one.
const FORGETTING: f64 = 0.9995;
/// A residual counts as at most this share of the prediction.
const CLIP: f64 = 1.5;
/// Standard deviation of a step's time, as a share of it.
const NOISE: f64 = 0.1;
/// Standard deviation of what the first model may be off by, as a share of it.
const DOUBT: f64 = 0.5;
/// Forgetting stops where the memory would become this much vaguer than it was at the beginning.
const VAGUE_MAX: f64 = 4.0;
/// No prediction is less than this share of the first model's.
const SHARE_MIN: f64 = 0.2;

/// A first model and what was learnt to be wrong with it.
#[derive(Clone, Debug)]
pub(crate) struct Rls {
    /// With a gain of 1.
    first: StepCost,
    wrong: [f64; TERMS],
    covariance: [[f64; TERMS]; TERMS],
    vague_max: f64,
}

impl Rls {
    /// Begins with `first`, which is valid; its gain is left out.
    pub(crate) fn new(first: StepCost) -> Self {
        let first = StepCost { gain: 1.0, ..first };
        let mut covariance = [[0.0; TERMS]; TERMS];
        let scale = scales(&first);
        for (at, scale) in scale.iter().enumerate() {
            covariance[at][at] = (DOUBT * scale).powi(2);
        }
        let vague_max = VAGUE_MAX * relative_trace(&covariance, &scale);
        Self { first, wrong: [0.0; TERMS], covariance, vague_max }
    }

    /// Microseconds of a step on a machine of gain 1.
    pub(crate) fn predict(&self, shape: StepShape) -> f64 {
        let first = self.first.expected_us(shape);
        let terms = terms(&self.first, shape);
        let wrong: f64 = terms.iter().zip(&self.wrong).map(|(term, wrong)| term * wrong).sum();
        (first + wrong).max(SHARE_MIN * first)
    }

    /// Learns that a step took `us`, on a machine of gain 1.
    pub(crate) fn learn(&mut self, shape: StepShape, us: f64) {
        let predicted = self.predict(shape);
        if !(predicted.is_finite() && predicted > 0.0 && us.is_finite()) {
            return;
        }
        let weight = 1.0 / (NOISE * predicted);
        let row = terms(&self.first, shape).map(|term| term * weight);
        let error = (us - predicted).clamp(-CLIP * predicted, CLIP * predicted) * weight;
        let mut spread = [0.0; TERMS];
        for (at, line) in self.covariance.iter().enumerate() {
            spread[at] = line.iter().zip(&row).map(|(one, other)| one * other).sum();
        }
        let seen: f64 = spread.iter().zip(&row).map(|(one, other)| one * other).sum();
        let vague = relative_trace(&self.covariance, &scales(&self.first));
        let kept = if vague < self.vague_max { FORGETTING } else { 1.0 };
        for at in 0..TERMS {
            self.wrong[at] += spread[at] / (kept + seen) * error;
            for other in 0..TERMS {
                let told = spread[at] * spread[other] / (kept + seen);
                self.covariance[at][other] = (self.covariance[at][other] - told) / kept;
            }
        }
    }

    /// The learnt model as step costs: microseconds of `decodes` alone, and of what prompts and cells add.
    pub(crate) fn prefill_us(&self) -> f64 {
        (self.first.per_prefill_token_us + self.wrong[PREFILL])
            .max(SHARE_MIN * self.first.per_prefill_token_us)
    }

    /// Microseconds of one attended cell.
    pub(crate) fn cell_us(&self) -> f64 {
        if self.first.per_cell_us == 0.0 {
            return 0.0;
        }
        (self.first.per_cell_us + self.wrong[CELLS]).max(SHARE_MIN * self.first.per_cell_us)
    }

    pub(crate) fn first(&self) -> &StepCost {
        &self.first
    }
}

/// The row of a step: what each learnt number counts for.
fn terms(first: &StepCost, shape: StepShape) -> [f64; TERMS] {
    let mut terms = [0.0; TERMS];
    hats(f64::from(shape.decodes), &mut terms);
    terms[PREFILL] = f64::from(shape.prefill);
    terms[OFFSET] = 1.0;
    if first.per_cell_us > 0.0 {
        terms[CELLS] = shape.cells.saturating_sub(shape.tiled_cells()) as f64;
    }
    terms
}

/// How much each knot counts for so many decodes. Below the first they count in proportion, and after the
/// last the line goes on.
fn hats(decodes: f64, terms: &mut [f64; TERMS]) {
    if decodes <= KNOTS[0] {
        terms[0] = decodes;
        return;
    }
    let next = KNOTS.iter().position(|knot| *knot >= decodes).unwrap_or(KNOTS.len() - 1);
    let (from, to) = (KNOTS[next - 1], KNOTS[next]);
    let along = (decodes - from) / (to - from);
    terms[next - 1] = 1.0 - along;
    terms[next] = along;
}

/// How large each learnt number could be.
fn scales(first: &StepCost) -> [f64; TERMS] {
    let mut scales = [0.0; TERMS];
    for (scale, knot) in scales.iter_mut().zip(KNOTS) {
        #[expect(clippy::cast_possible_truncation, reason = "a whole number below 25")]
        #[expect(clippy::cast_sign_loss, reason = "it is not negative")]
        let decodes = knot as u32;
        *scale = first.expected_us(StepShape { decodes, ..StepShape::default() }).max(1.0);
    }
    scales[PREFILL] = first.per_prefill_token_us.max(1e-3);
    scales[OFFSET] = first.base_us.max(1.0);
    scales[CELLS] = first.per_cell_us.max(1e-9);
    scales
}

fn relative_trace(covariance: &[[f64; TERMS]; TERMS], scale: &[f64; TERMS]) -> f64 {
    (0..TERMS).map(|at| covariance[at][at] / (scale[at] * scale[at])).sum()
}
