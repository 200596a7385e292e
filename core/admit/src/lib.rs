//! The pure admission controller: who gets in, and when the others may come back.
//!
//! A caller offers a request ([`Offer`]) and hears a [`Verdict`], at once or, when the request is
//! held, later as an [`Effect`]. An admitted request is a *lease* until its engine says that it was
//! submitted; from then on the engine's records are the truth, until they say that it has finished.
//! Requests of callers without an engine are remembered until their outcome is observed.
//!
//! Promises of this crate:
//! - It is deterministic: `now` and the generator are arguments, and nothing depends on the order of
//!   a hash map. The same calls give the same answers.
//! - What is knowable at admission is a type: a [`Policy`] sees a [`Problem`], and nothing in a
//!   problem reaches what became of a request.
//! - Memory is bounded by the configured numbers and by what the engines say they run.
//!
//! It knows no wire format, no address of an engine and no clock.

mod adaptive;
mod check;
mod controller;
mod cost;
mod engine;
mod entry;
mod forecast;
mod held;
mod honesty;
mod ledger;
mod lengths;
mod limit;
mod offer;
mod policy;
mod rate;
mod record;
mod retry;
mod settings;
mod sight;
mod snapshot;
mod timers;
mod trace;
mod twin;
mod verdict;
mod view;

pub use controller::{Controller, Effect};
pub use cost::{Composition, Speed};
pub use engine::EngineId;
pub use honesty::{Coverage, Honesty, Load, wilson};
pub use ledger::Totals;
pub use lengths::AnswerBucket;
pub use limit::Limits;
pub use offer::{Attempt, Budget, Candidate, Offer, Source};
pub use policy::{AdmissionContext, Choice, Decision, EngineView, Policy, Problem, Shortage};
pub use rate::RATE_DEFAULT;
pub use record::{Ended, Event, How, Record, Step, Submitted};
pub use sched::{Bend, Discipline, Lateness, Order, PLANNER_VERSION, Reservation, Rules};
pub use settings::{BUDGET_MAX, PATIENCE_MAX, Settings};
pub use snapshot::{EngineLimits, KvUsage, Phase, Sequence, Snapshot, StepCost, Tier};
pub use trace::{Cut, Observation, Outcome, Saw, SeenEngine, Trace, TracedVerdict, Way, Why};
pub use twin::{BestEffort, Deferral, Foresight, Twin};
pub use verdict::{Admitted, Cause, Dominant, Reason, Refused, Verdict};
pub use view::{Counters, EngineStatus, View};
