//! What a worker does about it before it is ready.

use std::time::Duration;

use sched::{Engine, EngineError, Limits, StepCost};
use service::clock::Clock;
use units::{Micros, Span};

use super::{
    Artifact, Composition, CostSource, Course, Folder, Grid, Machine, Provenance, Reach, Rig,
    course,
};
use crate::{identity::Identity, settings::EngineSettings};

/// No more steps are begun after this.
const PATIENCE: Span = Span::from_secs(4);
/// Rounds that are enough.
const ROUNDS: u32 = 5;
/// Of a context, as much as is measured: the rest would only cost memory.
pub(super) const CONTEXT_TOKENS: u32 = 2_048;
/// How long a file that may have a calibration is read for its hash.
const HASHING: Duration = Duration::from_secs(60);
/// How long any other is, so that steps are not measured beside it.
const HASHING_BEFORE: Duration = Duration::from_secs(2);

/// The stored calibration that holds for this model file on this machine, if there is one. Waits for the
/// file's hash where that decides.
pub(crate) fn stored(
    settings: &EngineSettings,
    identity: &Identity,
    backend: &str,
    bytes: u64,
) -> Option<Artifact> {
    let folder = Folder::of(settings.model.as_deref()?, settings.calibration_dir.as_deref());
    let patience = if folder.files().is_empty() { HASHING_BEFORE } else { HASHING };
    let model_sha256 = identity.wait(patience)?.to_owned();
    let found = folder.find(&Provenance::new(model_sha256, bytes, backend), settings)?;
    let Artifact { configuration, measured_unix, rate, .. } = &found;
    tracing::info!(?configuration, measured_unix, rate, "calibrated");
    Some(found)
}

impl Provenance {
    /// Of this program on this machine.
    pub(crate) fn new(model_sha256: String, model_bytes: u64, backend: &str) -> Self {
        Self {
            model_sha256,
            model_bytes,
            machine: Machine::this(),
            engine: version(),
            planner: sched::PLANNER_VERSION.into(),
            backend: backend.into(),
        }
    }
}

/// The version, and what of the build changes the speed.
fn version() -> String {
    let mut version = format!("{} {}", env!("CARGO_PKG_VERSION"), std::env::consts::ARCH);
    for (there, name) in [
        (cfg!(debug_assertions), "debug"),
        (cfg!(target_feature = "avx2"), "avx2"),
        (cfg!(target_feature = "avx512f"), "avx512"),
        (cfg!(feature = "metal"), "metal"),
        (cfg!(feature = "cuda"), "cuda"),
        (cfg!(feature = "vulkan"), "vulkan"),
    ] {
        if there {
            version = format!("{version} {name}");
        }
    }
    version
}

/// Runs synthetic steps for a few seconds and fits the model to them. Of equal steps the fastest counts:
/// whatever else the machine was doing only ever adds.
///
/// # Errors
/// The engine failed: it would fail for everybody.
pub(crate) fn measure(
    engine: &mut dyn Engine,
    limits: &Limits,
    keeps: bool,
    vocabulary: u32,
    clock: &Clock,
) -> Result<(StepCost, CostSource), EngineError> {
    let reach = Reach {
        slots: limits.slots,
        context_tokens: limits.context_tokens.min(CONTEXT_TOKENS),
        batch_tokens: limits.batch_tokens.min(limits.prefill_tokens + limits.slots),
        keeps,
        vocabulary,
    };
    let deadline = clock.now() + PATIENCE;
    let mut rig = Rig::new(engine, reach);
    let token = token(&mut rig)?;
    let steps = Grid::new(&reach, token, PATIENCE).short(&reach);
    let mut course = least(&mut rig, clock)?;
    course.extend(Course::run(&mut rig, &steps, ROUNDS, clock, deadline)?);
    rig.finish()?;
    if let Some(cost) = course::fit(&course.fastest()) {
        return Ok((cost, CostSource::Measured));
    }
    tracing::warn!(
        "no step costs, as the machine is too busy or the batch too small; beginning with a guess"
    );
    Ok((StepCost::GUESS, CostSource::Guessed))
}

/// The steps without which nothing is known, however slow or busy the machine is.
pub(super) fn least(rig: &mut Rig<'_>, clock: &Clock) -> Result<Course, EngineError> {
    let steps = Grid::least(rig.reach());
    Course::run(rig, &steps, 1, clock, Micros(u64::MAX))
}

/// What a token of a short prompt takes.
pub(super) fn token(rig: &mut Rig<'_>) -> Result<Span, EngineError> {
    let reach = rig.reach();
    let prefill = 16.min(reach.batch_tokens).min(reach.context_tokens);
    let prompt = Composition { prefill, ..Composition::default() };
    // The first steps of a context are slow.
    let took = [rig.run(prompt)?, rig.run(prompt)?, rig.run(prompt)?].map(|it| it.took);
    let fastest = took.into_iter().min().expect("there are three");
    Ok(fastest.mul_f64(1.0 / f64::from(prefill)))
}
