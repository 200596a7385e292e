//! The pure scheduler: plans steps, commits their outcome.
//!
//! It knows no clock, no thread and no model: `now` is an argument, and an [`Engine`] runs its plans.
//! So the same code runs under llama.cpp, under the mock, and in virtual time.
//!
//! Order of a step: commands, [`Scheduler::plan_step`], [`Engine::execute`],
//! [`Scheduler::commit_step`], [`Scheduler::drain_events`].

mod check;
mod command;
mod cost;
mod engine;
mod epoch;
mod event;
mod mock;
mod plan;
mod planner;
mod scheduler;
mod seq;
mod snapshot;

pub use command::{Command, Submission, Tier};
pub use cost::{StepCost, StepShape};
pub use engine::{Engine, EngineError};
pub use epoch::{Epochs, Held, LAPSE};
pub use event::{Event, FinishReason, Refusal, StepRecord, Timings, Usage};
pub use mock::{Answers, MockEngine};
pub use plan::{Decode, Join, Move, Prefill, Reuse, Sampled, StepOutcome, StepPlan};
pub use planner::{Limits, PLANNER_VERSION, Running, StepProblem, StepSolution, Waiting};
pub use scheduler::Scheduler;
pub use seq::{Phase, PlanKey};
pub use snapshot::{SequenceView, Snapshot};
