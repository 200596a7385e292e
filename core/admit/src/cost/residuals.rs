//! How far predictions of the next moments turned out to be off.
//!
//! Four times a second of work the model is frozen; the frozen model then predicts each step that is
//! really made in the next one and a half seconds, whatever it is (teacher forcing). The logarithm of
//! what they took over what was predicted is one residual.

use std::collections::VecDeque;

use sched::StepShape;
use units::Span;

use crate::forecast::StepTimes;

/// Work between two freezes.
const EVERY: Span = Span::from_millis(250);
/// Work that a frozen model has to predict.
const AHEAD: Span = Span::from_millis(1_500);
/// Residuals that are kept, and how many there are at least: before anything was measured, they are
/// spread as those of an unknown machine.
const KEPT: usize = 300;
const FIRST: usize = 120;
/// Standard deviation of those.
const FIRST_SPREAD: f64 = 0.06;
/// No residual counts for more than this.
const WORST: f64 = 2.0;

/// A model, as it was a moment ago.
#[derive(Clone, Debug)]
struct Frozen {
    times: StepTimes,
    predicted_us: u64,
    took: Span,
}

/// The residuals of one engine.
#[derive(Clone, Debug)]
pub(crate) struct Residuals {
    frozen: VecDeque<Frozen>,
    since: Span,
    recent: VecDeque<f64>,
    sorted: Vec<f64>,
    measured: u64,
}

impl Default for Residuals {
    fn default() -> Self {
        let at = |index: usize| {
            let share = (index as f64 + 0.5) / FIRST as f64;
            // The logistic's quantiles: nearly normal, with somewhat more in the tails.
            FIRST_SPREAD * 0.5513 * (share / (1.0 - share)).ln()
        };
        let sorted: Vec<f64> = (0..FIRST).map(at).collect();
        // They are let go from the middle and the ends alike.
        let recent = (0..FIRST).map(|index| sorted[index * 7 % FIRST]).collect();
        Self { frozen: VecDeque::new(), since: EVERY, recent, sorted, measured: 0 }
    }
}

impl Residuals {
    /// A step was made; `now` gives the model as it is.
    pub(crate) fn step(&mut self, shape: StepShape, took: Span, now: impl FnOnce() -> StepTimes) {
        for frozen in &mut self.frozen {
            frozen.predicted_us += frozen.times.us(shape);
            frozen.took += took;
        }
        while self.frozen.front().is_some_and(|it| it.took >= AHEAD) {
            let Some(oldest) = self.frozen.pop_front() else { break };
            let score = (oldest.took.0 as f64 / oldest.predicted_us as f64).ln();
            self.add(score.clamp(-WORST, WORST));
        }
        self.since += took;
        if self.since >= EVERY {
            self.since = Span::ZERO;
            self.frozen.push_back(Frozen { times: now(), predicted_us: 0, took: Span::ZERO });
        }
    }

    fn add(&mut self, score: f64) {
        self.measured += 1;
        let unmeasured = self.recent.len() as u64 + 1 > self.measured;
        if self.recent.len() >= KEPT || unmeasured {
            self.recent.pop_front();
        }
        self.recent.push_back(score);
        self.sorted.clear();
        self.sorted.extend(&self.recent);
        self.sorted.sort_unstable_by(f64::total_cmp);
    }

    /// The residual below which this share of them lies, 0 to 1.
    pub(crate) fn quantile(&self, share: f64) -> f64 {
        #[expect(clippy::cast_possible_truncation, reason = "an index")]
        #[expect(clippy::cast_sign_loss, reason = "negative and NaN become zero")]
        let at = (share * self.sorted.len() as f64) as usize;
        self.sorted[at.min(self.sorted.len() - 1)]
    }

    /// How many were measured altogether.
    pub(crate) fn measured(&self) -> u64 {
        self.measured
    }
}
