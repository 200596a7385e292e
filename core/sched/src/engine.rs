//! The seam between policy and a model.

use crate::{StepOutcome, StepPlan};

/// Something that can run a step: llama.cpp, or a cost model.
///
/// The only slow and fallible line of the step loop is behind it.
pub trait Engine {
    /// Runs one step. Called with non-empty plans only, in the order of their numbers.
    ///
    /// # Errors
    /// The step had no effect that later steps may rely on: the scheduler ends every sequence of the
    /// plan.
    fn execute(&mut self, plan: &StepPlan) -> Result<StepOutcome, EngineError>;
}

impl<E: Engine + ?Sized> Engine for Box<E> {
    fn execute(&mut self, plan: &StepPlan) -> Result<StepOutcome, EngineError> {
        (**self).execute(plan)
    }
}

/// Why a step failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// The plan asks for what the backend does not have. Refused before the backend saw it.
    #[error("the plan does not fit the backend: {0}")]
    Unfit(String),
    /// The backend found no room in its KV cache; it has added nothing.
    #[error("the backend has no room for the step's {rows} rows")]
    NoRoom {
        /// Rows of the batch.
        rows: usize,
    },
    /// The backend failed.
    #[error("the backend failed: {0}")]
    Backend(String),
}
