//! What steps cost on this machine: measured, fitted, stored, found again.
//!
//! `rig` runs synthetic steps through a real engine, `grid` says which, `course` runs them in rounds until
//! its time is over, and [`sched::StepCost::fit`] makes a model of them. That takes a few seconds before a
//! worker is ready (`start`). `engine-worker calibrate` takes most of a minute (`calibrator`): it compares
//! configurations (`compare`), says how far off the model is (`residuals`) and writes all that down
//! (`artifact`), for later starts to find (`folder`).
//!
//! Nothing of another model, processor or version is ever used: a wrong model of the machine is worse
//! than a short measurement of it.

mod artifact;
mod calibrator;
mod compare;
mod course;
mod folder;
mod grid;
mod machine;
mod residuals;
mod rig;
mod start;

pub use artifact::{Artifact, ArtifactError, Configuration, Mismatch, Provenance};
pub use calibrator::{Calibrated, Calibrator, Told};
pub use compare::{Candidate, chunk};
pub use course::Course;
pub use folder::Folder;
pub(crate) use folder::read;
pub use grid::Grid;
pub use machine::Machine;
pub(crate) use machine::processors;
pub use residuals::{Residual, residuals};
pub use rig::{Composition, Measured, Reach, Rig};
pub(crate) use start::{measure, stored};

/// Where the first idea of what steps cost comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CostSource {
    /// A stored calibration of this model on this machine.
    Calibrated,
    /// A few seconds of steps at the start.
    Measured,
    /// Those steps did not tell.
    Guessed,
    /// The mock's settings.
    Mock,
    /// A stored calibration, which the mock takes for the truth.
    MockCalibrated,
}
