//! The policies `twin`, `twin-mc` and `full`: promises that rest on a simulation of the engine's own
//! planner.
//!
//! A candidate is put into a copy of the engine's state and the copy is run forwards. It gets a promise
//! when it is in time and when no promise already made becomes less safe by it. What can be said of others
//! than the candidate is computed once for each state of the engine.

mod case;
mod decide;
mod doubt;
mod explain;
mod price;
mod scenarios;
mod settings;

pub(crate) use decide::{decide, shortage};
pub(crate) use price::{Cost, Price};
pub(crate) use scenarios::{Scenarios, horizon};
pub use settings::{BestEffort, Deferral, Foresight, Twin};
