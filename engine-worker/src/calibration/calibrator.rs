//! A whole calibration: compares configurations, then measures the best.

use std::time::Duration;

use anyhow::{Context as _, anyhow};
use sched::{EngineError, StepCost};
use service::clock::Clock;
use units::Span;

use super::{
    Artifact, Candidate, Configuration, Course, Grid, Provenance, Reach, Residual, Rig, chunk,
    machine, residuals, start,
};
use crate::{
    backend::Opened,
    settings::{EngineSettings, LayoutChoice, LayoutKind},
};

/// The part of the time in which configurations are compared.
const COMPARING: f64 = 0.4;
/// With so much fewer tokens a second than with more threads, even fewer threads are not tried.
const HOPELESS: f64 = 0.7;
/// Rows of a batch are a multiple of this.
const ROWS_STEP: u32 = 32;

/// Calibrates one model.
pub struct Calibrator<'a> {
    /// The model.
    pub opened: &'a Opened,
    /// What is set; what is open is compared.
    pub settings: &'a EngineSettings,
    /// Counts from the start of the calibration.
    pub clock: Clock,
}

/// What goes on.
#[derive(Clone, Copy, Debug)]
pub enum Told {
    /// A configuration was tried.
    Tried(Candidate),
    /// One could not be, in its time.
    Skipped {
        /// Where sequences live.
        layout: LayoutKind,
        /// Threads of llama.cpp.
        threads: u32,
    },
    /// The best is measured.
    Measuring {
        /// Where sequences live.
        layout: LayoutKind,
        /// Threads of llama.cpp.
        threads: u32,
        /// For how long.
        span: Span,
    },
    /// The model is checked.
    Checking {
        /// For how long.
        span: Span,
    },
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Calibrated {
    /// What was compared.
    pub tried: Vec<Candidate>,
    configuration: Configuration,
    rate: f64,
    cost: StepCost,
    /// As it was measured.
    course: Course,
    /// On a machine of constant speed.
    level: Course,
}

impl Calibrated {
    /// The calibration as it is written down, `unix` after 1970.
    #[must_use]
    pub fn artifact(&self, provenance: Provenance, unix: Duration) -> Artifact {
        let steps = self.course.steps().len() as u64;
        let residuals = residuals(&self.course, self.cost);
        Artifact::new(provenance, self.configuration, &self.cost, self.rate, unix).with_evidence(
            steps,
            residuals,
            &self.level.typical(),
        )
    }
}

impl Calibrator<'_> {
    /// Calibrates within `patience`, or little more.
    ///
    /// # Errors
    /// The engine fails, or is too slow for any configuration to be measured in that time.
    pub fn run(&self, patience: Span, tell: &mut dyn FnMut(Told)) -> anyhow::Result<Calibrated> {
        let begun = self.clock.now();
        let tried = self.compare(patience.mul_f64(COMPARING), tell)?;
        let best = Candidate::best(&tried).map(|at| tried[at]).with_context(|| {
            format!("no configuration could be measured in {patience}; give it more time")
        })?;
        let span = (begun + patience).since(self.clock.now());
        let Candidate { layout, threads, .. } = best;
        tell(Told::Measuring { layout, threads, span });
        let (course, reach) = self.with_rig(layout, threads, |rig| {
            let deadline = self.clock.now() + span;
            let token = start::token(rig)?;
            let steps = Grid::new(rig.reach(), token, span).long(rig.reach());
            let mut course = start::least(rig, &self.clock)?;
            course.extend(Course::run(rig, &steps, u32::MAX, &self.clock, deadline)?);
            Ok((course, *rig.reach()))
        })?;
        let (level, cost) = course.clone().fit().with_context(|| {
            format!(
                "{} steps in {span} determine no costs; give it more time",
                course.steps().len()
            )
        })?;
        let prefill_tokens = chunk(&level).unwrap_or(reach.batch_tokens).min(reach.batch_tokens);
        let rows = (prefill_tokens + reach.slots).next_multiple_of(ROWS_STEP);
        let configuration = Configuration {
            layout,
            threads,
            gpu_layers: self.settings.gpu_layers,
            batch_tokens: rows.min(reach.batch_tokens),
            prefill_tokens,
        };
        Ok(Calibrated { tried, configuration, rate: best.rate(), cost, course, level })
    }

    /// Measures further steps, and says how far off the model is on those.
    ///
    /// # Errors
    /// The engine fails.
    pub fn check(
        &self,
        artifact: &Artifact,
        span: Span,
        tell: &mut dyn FnMut(Told),
    ) -> anyhow::Result<Vec<Residual>> {
        tell(Told::Checking { span });
        let Configuration { layout, threads, .. } = artifact.configuration;
        let course = self.with_rig(layout, threads, |rig| {
            let deadline = self.clock.now() + span;
            let token = start::token(rig)?;
            let steps = Grid::new(rig.reach(), token, span).others(rig.reach());
            Course::run(rig, &steps, u32::MAX, &self.clock, deadline)
        })?;
        Ok(residuals(&course, artifact.cost()))
    }

    fn compare(&self, span: Span, tell: &mut dyn FnMut(Told)) -> anyhow::Result<Vec<Candidate>> {
        let layouts = match self.settings.scheduling.layout {
            LayoutChoice::Auto => vec![LayoutKind::Streams, LayoutKind::Unified],
            LayoutChoice::Streams | LayoutChoice::Unified => {
                vec![self.settings.scheduling.layout()]
            }
        };
        let threads = match self.settings.threads {
            0 => counts(machine::processors()),
            set => vec![set],
        };
        let end = self.clock.now() + span;
        let mut left = u32::try_from(layouts.len() * threads.len()).unwrap_or(u32::MAX);
        let mut tried: Vec<Candidate> = Vec::new();
        for &layout in &layouts {
            let mut most = 0.0_f64;
            for &threads in &threads {
                let share = end.since(self.clock.now()).mul_f64(1.0 / f64::from(left.max(1)));
                left = left.saturating_sub(1);
                let candidate = self.with_rig(layout, threads, |rig| {
                    let deadline = self.clock.now() + share;
                    let is_first = tried.is_empty();
                    Candidate::measure(rig, (layout, threads), &self.clock, deadline, is_first)
                })?;
                tell(candidate.map_or(Told::Skipped { layout, threads }, Told::Tried));
                let rate = candidate.as_ref().map_or(0.0, Candidate::rate);
                tried.extend(candidate);
                if rate < most * HOPELESS {
                    break;
                }
                most = most.max(rate);
            }
        }
        Ok(tried)
    }

    /// Calls `act` with an engine in this configuration, otherwise as it would serve.
    fn with_rig<T>(
        &self,
        layout: LayoutKind,
        threads: u32,
        act: impl FnOnce(&mut Rig<'_>) -> Result<T, EngineError>,
    ) -> anyhow::Result<T> {
        let mut settings = self.settings.clone();
        settings.scheduling.layout = layout.into();
        settings.threads = threads;
        // Longer ones would only take memory.
        settings.context_tokens = match settings.context_tokens {
            0 => start::CONTEXT_TOKENS,
            set => set.min(start::CONTEXT_TOKENS),
        };
        let backend = self.opened.backend(&settings)?;
        let limits = backend.sizes.limits(&settings);
        let vocabulary = backend.tokenizer.vocabulary().len();
        let reach = Reach {
            slots: limits.slots,
            context_tokens: limits.context_tokens,
            batch_tokens: limits.batch_tokens,
            keeps: backend.keeps,
            vocabulary: u32::try_from(vocabulary).unwrap_or(u32::MAX),
        };
        let (mut act, mut done) = (Some(act), None);
        (backend.with_engine)(&mut |engine| {
            done = act.take().map(|act| act(&mut Rig::new(engine, reach)));
        })?;
        let done = done.ok_or_else(|| anyhow!("the engine was not made"))?;
        done.context("a step failed")
    }
}

/// Thread counts that are worth trying: all processors, and half as many again and again.
fn counts(processors: u32) -> Vec<u32> {
    std::iter::successors(Some(processors.max(1)), |count| Some(count / 2).filter(|it| *it > 0))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_counts_halve_down_to_one() {
        assert_eq!(counts(0), [1]);
        assert_eq!(counts(2), [2, 1]);
        assert_eq!(counts(12), [12, 6, 3, 1]);
    }
}
