//! The pure scheduler: plans steps, commits their outcome.
//!
//! It knows no clock, no thread and no model: `now` is an argument, and an [`Engine`] runs its plans.
//! So the same code runs under llama.cpp, under the mock, and in virtual time.
//!
//! Order of a step: commands, [`Scheduler::plan_step`], [`Engine::execute`],
//! [`Scheduler::commit_step`], [`Scheduler::drain_events`].

mod batch;
mod candidates;
mod check;
mod command;
mod commit;
mod cost;
mod counters;
mod deadline;
mod engine;
mod epoch;
mod event;
mod finish;
mod join;
mod limits;
mod mock;
mod moves;
mod plan;
mod planner;
mod preempt;
mod publish;
mod queue;
mod rules;
mod scheduler;
mod seq;
mod snapshot;
mod submit;

pub use command::{Command, Submission, Tier};
pub use cost::{Bend, StepCost, StepShape};
pub use counters::Counters;
pub use engine::{Engine, EngineError};
pub use epoch::{Epochs, Held, LAPSE};
pub use event::{Event, FinishReason, Refusal, StepRecord, Timings, Usage};
pub use limits::Limits;
pub use mock::{Answers, MockEngine};
pub use plan::{Decode, Join, Move, Prefill, Reuse, Sampled, Spent, StepOutcome, StepPlan};
pub use planner::{Cause, Helper, PLANNER_VERSION, Running, StepProblem, StepSolution, Waiting};
pub use rules::{Discipline, Lateness, Order, Reservation, Rules};
pub use scheduler::Scheduler;
pub use seq::{Phase, PlanKey};
pub use snapshot::{SequenceView, Snapshot};
