//! What a step costs.
//!
//! A model of a step's shape, times a gain that follows the machine: when other work takes the
//! processor, every step slows by about the same factor, and the plan has to know it within a few
//! steps. It is linear but for the decoding sequences, whose cost bends.

mod bend;
mod fit;

pub use bend::Bend;
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
    /// Those of them that the rows of prompts attend to.
    pub prefill_cells: u64,
}

impl StepShape {
    /// Cells of prompts after the first of them, to which long pieces attend in tiles. A kernel does so from
    /// 64 rows on; but then a step with one row more would take less time, and a planner that looks for the
    /// longest step that it can afford has to know that more takes more.
    #[must_use]
    pub fn tiled_cells(&self) -> u64 {
        self.prefill_cells.saturating_sub(UNTILED_CELLS)
    }
}

/// Cells of prompts that cost as much as those of answers: measured to fit best.
const UNTILED_CELLS: u64 = 16_384;

/// The time a step takes, in microseconds per unit. All at least 0 and finite, but for the bend; and
/// more never costs less. See [`StepCost::validate`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepCost {
    /// Any step.
    pub base_us: f64,
    /// One sequence that samples one more token.
    pub per_decode_us: f64,
    /// One prompt token.
    pub per_prefill_token_us: f64,
    /// One attended cell, but for the below.
    pub per_cell_us: f64,
    /// How much slower (above 1) or faster the machine is now. Above 0.
    pub gain: f64,
    /// One cell that a prompt attends to, after the first 16,384: long pieces attend in tiles.
    pub per_tiled_cell_us: f64,
    /// Any prompt at all, beside its tokens.
    pub prompt_us: f64,
    /// What decoding sequences take beyond `per_decode_us` each.
    pub bend: Bend,
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
        per_tiled_cell_us: 0.0,
        prompt_us: 0.0,
        bend: Bend::NONE,
    };

    /// The expected time of a step.
    #[must_use]
    pub fn predict(&self, shape: StepShape) -> Span {
        Span::from_secs_f64(self.expected_us(shape) / 1e6)
    }

    /// The expected time of a step in microseconds, not rounded.
    #[must_use]
    pub fn expected_us(&self, shape: StepShape) -> f64 {
        self.gain * self.plain_us(shape)
    }

    fn plain_us(&self, shape: StepShape) -> f64 {
        let tiled = shape.tiled_cells();
        self.base_us
            + self.per_decode_us * f64::from(shape.decodes)
            + self.bend.at(shape.decodes)
            + self.prompt_us * f64::from(shape.prefill.min(1))
            + self.per_prefill_token_us * f64::from(shape.prefill)
            + self.per_cell_us * shape.cells.saturating_sub(tiled) as f64
            + self.per_tiled_cell_us * tiled as f64
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

    /// The model that fits measured steps best: least squares of the relative error, no cost negative.
    /// `None` unless there are steps of three kinds at least, some of which decode and some of which
    /// have a prompt.
    #[must_use]
    pub fn fit(steps: &[(StepShape, Span)]) -> Option<Self> {
        fit::fit(steps)
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
            ("per_tiled_cell_us", self.per_tiled_cell_us),
            ("prompt_us", self.prompt_us),
        ];
        let bad = times.iter().find(|(_, value)| !(value.is_finite() && *value >= 0.0));
        match bad {
            Some((name, _)) => Err(name),
            None if !(self.gain.is_finite() && self.gain > 0.0) => Err("gain"),
            None if !self.bend.is_finite() || self.bend.falls(self.per_decode_us) => Err("bend"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
