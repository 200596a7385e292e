//! One engine's step costs, followed as they change.

use sched::{StepCost, StepShape};
use units::{Micros, Span};

use super::{residuals::Residuals, rls::Rls};
use crate::{Step, StepCost as Published, forecast::StepTimes};

/// How far one step moves the gain.
const GAIN_STEP: f64 = 0.03;
/// The gain stays between this and its inverse.
const GAIN_MAX: f64 = 64.0;
/// Longer steps are the report of a broken clock.
const TOOK_MAX: Span = Span::from_secs(60);
/// More rows than this are the report of a broken engine.
const ROWS_MAX: u32 = 1 << 20;
/// How fast the alarm follows, and when it goes off and on again: steps that take 1.35 times what is
/// predicted, or 1.12 times.
const ALARM_STEP: f64 = 0.08;
const ALARM_ON: f64 = 0.30;
const ALARM_OFF: f64 = 0.12;
/// The alarm ends by itself, so that it cannot lock anybody out.
const ALARM_MAX: Span = Span::from_secs(15);
/// How fast the error by composition follows.
const COMPOSITION_STEP: f64 = 0.02;

/// Kinds of steps whose error is watched apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Composition {
    /// At most four answers, no prompt.
    FewAnswers,
    /// More answers, no prompt.
    ManyAnswers,
    /// A prompt alone.
    Prompt,
    /// A prompt beside answers.
    Mixed,
}

/// What was learnt of an engine's speed.
#[derive(Clone, Debug, PartialEq)]
pub struct Speed {
    /// The fast factor on top of the learnt model.
    pub gain: f64,
    /// Steps learnt from.
    pub steps: u64,
    /// Steps that were not believed: no time, too much time, too many rows.
    pub rejected: u64,
    /// Teacher-forced residuals measured so far.
    pub residuals: u64,
    /// The middle and the 98th percentile of the latest of them, as logarithms of actual over predicted.
    pub residual_median: f64,
    /// See above.
    pub residual_high: f64,
    /// Mean logarithm of actual over predicted of single steps, by kind.
    pub by_composition: [(Composition, f64); 4],
    /// Steps take far longer than predicted: nothing is promised until that is learnt.
    pub alarm: bool,
}

/// Follows one engine.
#[derive(Clone, Debug)]
pub(crate) struct Learner {
    rls: Rls,
    first_gain: f64,
    gain: f64,
    residuals: Residuals,
    steps: u64,
    rejected: u64,
    off: f64,
    alarm_since: Option<Micros>,
    compositions: [f64; 4],
    times: StepTimes,
    slots: u32,
    is_static: bool,
}

impl Learner {
    /// Begins with what the engine says of itself; `None` if that is no model. A static one does not learn.
    pub(crate) fn new(published: Published, slots: u32, is_static: bool) -> Option<Self> {
        let cost = StepCost::from(published);
        cost.validate().ok()?;
        let rls = Rls::new(cost);
        let gain = cost.gain.clamp(1.0 / GAIN_MAX, GAIN_MAX);
        let times = times(&rls, gain, slots);
        Some(Self {
            rls,
            first_gain: gain,
            gain,
            residuals: Residuals::default(),
            steps: 0,
            rejected: 0,
            off: 0.0,
            alarm_since: None,
            compositions: [0.0; 4],
            times,
            slots,
            is_static,
        })
    }

    /// A step was made.
    pub(crate) fn step(&mut self, now: Micros, step: &Step) {
        let shape = step.shape();
        let rows = shape.decodes.saturating_add(shape.prefill);
        if step.took == Span::ZERO || step.took > TOOK_MAX || rows == 0 || rows > ROWS_MAX {
            self.rejected += 1;
            return;
        }
        self.steps += 1;
        let took_us = step.took.0 as f64;
        let predicted_us = self.gain * self.rls.predict(shape);
        let off = (took_us / predicted_us).ln();
        if !off.is_finite() {
            self.rejected += 1;
            return;
        }
        let composition = &mut self.compositions[composition(shape) as usize];
        *composition += COMPOSITION_STEP * (off - *composition);
        self.watch(now, off);
        if !self.is_static {
            self.rls.learn(shape, took_us / self.gain);
            let after_us = self.gain * self.rls.predict(shape);
            let left = (took_us / after_us).ln().clamp(-2.0, 2.0);
            self.gain = (self.gain * (GAIN_STEP * left).exp()).clamp(1.0 / GAIN_MAX, GAIN_MAX);
            self.times = times(&self.rls, self.gain, self.slots);
        }
        let Self { residuals, times, .. } = self;
        residuals.step(shape, step.took, || times.clone());
    }

    /// Follows how far single steps are off, on the side that breaks promises.
    fn watch(&mut self, now: Micros, off: f64) {
        self.off += ALARM_STEP * (off.clamp(-1.0, 1.0) - self.off);
        match self.alarm_since {
            None if self.off > ALARM_ON => self.alarm_since = Some(now),
            Some(since) if self.off < ALARM_OFF || now.since(since) > ALARM_MAX => {
                self.alarm_since = None;
                self.off = self.off.min(ALARM_OFF);
            }
            None | Some(_) => {}
        }
    }

    /// How many times slower than the engine first said of itself.
    pub(crate) fn slower(&self) -> f64 {
        self.gain / self.first_gain
    }

    /// Whether steps take far longer than predicted.
    pub(crate) fn alarm(&self) -> bool {
        self.alarm_since.is_some()
    }

    /// The model as it is.
    pub(crate) fn times(&self) -> &StepTimes {
        &self.times
    }

    pub(crate) fn residuals(&self) -> &Residuals {
        &self.residuals
    }

    pub(crate) fn speed(&self) -> Speed {
        use Composition::{FewAnswers, ManyAnswers, Mixed, Prompt};
        let kinds = [FewAnswers, ManyAnswers, Prompt, Mixed];
        Speed {
            gain: self.gain,
            steps: self.steps,
            rejected: self.rejected,
            residuals: self.residuals.measured(),
            residual_median: self.residuals.quantile(0.5),
            residual_high: self.residuals.quantile(0.98),
            by_composition: kinds.map(|kind| (kind, self.compositions[kind as usize])),
            alarm: self.alarm(),
        }
    }
}

fn composition(shape: StepShape) -> Composition {
    match (shape.decodes, shape.prefill) {
        (0..=4, 0) => Composition::FewAnswers,
        (_, 0) => Composition::ManyAnswers,
        (0, _) => Composition::Prompt,
        (_, _) => Composition::Mixed,
    }
}

fn times(rls: &Rls, gain: f64, slots: u32) -> StepTimes {
    let plain = |decodes| {
        let shape = StepShape { decodes, ..StepShape::default() };
        gain * rls.predict(shape)
    };
    let first = rls.first();
    StepTimes::learnt(
        plain,
        slots,
        gain * first.prompt_us,
        gain * rls.prefill_us(),
        gain * rls.cell_us(),
        gain * first.per_tiled_cell_us,
    )
}
