//! How long a step takes, in a form that a simulation can ask thousands of times.

use sched::{StepCost, StepShape};
/// Sequences that decode together at most; llama.cpp tells no more apart.
const DECODES_MAX: u32 = 256;

/// Step times of one model of costs: what decodes take is looked up, the rest is linear.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StepTimes {
    /// Microseconds of a step with so many decodes and no prompt, cells aside.
    decodes: Vec<f64>,
    /// Of any prompt at all.
    prompt: f64,
    per_prefill: f64,
    per_cell: f64,
    per_tiled_cell: f64,
}

impl StepTimes {
    /// The times that `cost` predicts, for as many decodes as there are slots.
    pub(crate) fn of(cost: &StepCost, slots: u32) -> Self {
        let plain = |decodes| cost.expected_us(StepShape { decodes, ..StepShape::default() });
        Self::learnt(
            plain,
            slots,
            cost.gain * cost.prompt_us,
            cost.gain * cost.per_prefill_token_us,
            cost.gain * cost.per_cell_us,
            cost.gain * cost.per_tiled_cell_us,
        )
    }

    /// Times that were learnt, in microseconds: `plain` of so many decodes, and what each thing adds.
    pub(crate) fn learnt(
        plain: impl Fn(u32) -> f64,
        slots: u32,
        prompt: f64,
        per_prefill: f64,
        per_cell: f64,
        per_tiled_cell: f64,
    ) -> Self {
        let most = slots.min(DECODES_MAX);
        let decodes = (0..=most).map(plain).collect();
        Self { decodes, prompt, per_prefill, per_cell, per_tiled_cell }
    }

    /// Whether a step takes as long whatever its rows attend to.
    pub(crate) fn ignores_cells(&self) -> bool {
        self.per_cell == 0.0 && self.per_tiled_cell == 0.0
    }

    /// Microseconds of one step, whole ones.
    pub(crate) fn us(&self, shape: StepShape) -> u64 {
        whole(self.plain(shape) + self.cells(shape))
    }

    /// Microseconds of `steps` steps that look alike, but that each row attends to one cell more with
    /// every step.
    pub(crate) fn run_us(&self, shape: StepShape, steps: u32) -> u64 {
        let once = self.plain(shape) + self.cells(shape);
        if steps == 1 || self.ignores_cells() {
            return whole(once).saturating_mul(steps.into());
        }
        let steps = f64::from(steps);
        let growth = self.per_cell * f64::from(shape.decodes);
        whole(steps * once + growth * steps * (steps - 1.0) / 2.0)
    }

    fn plain(&self, shape: StepShape) -> f64 {
        let last = self.decodes.len() - 1;
        let decodes = self.decodes[(shape.decodes as usize).min(last)];
        if shape.prefill == 0 {
            return decodes;
        }
        decodes + self.prompt + self.per_prefill * f64::from(shape.prefill)
    }

    fn cells(&self, shape: StepShape) -> f64 {
        if self.ignores_cells() {
            return 0.0;
        }
        let tiled = shape.tiled_cells();
        self.per_cell * shape.cells.saturating_sub(tiled) as f64
            + self.per_tiled_cell * tiled as f64
    }
}

/// Rounded to whole microseconds, and at least one: time always passes.
#[expect(clippy::cast_possible_truncation, reason = "float to int casts saturate")]
#[expect(clippy::cast_sign_loss, reason = "negative saturates to zero")]
fn whole(us: f64) -> u64 {
    ((us + 0.5) as u64).max(1)
}
