//! The whole service in virtual time: clients, gateways, admission and engines in one address space.
//!
//! What decides is the production code: [`sched::Scheduler`] with its KV core, and [`admit::Controller`],
//! each called as its service calls it. What is made up is what surrounds them: clients and their arrivals
//! ([`workload`]), the time that steps take ([`Truth`]), the time that messages take ([`Wires`]), and what
//! goes wrong ([`Fault`]). A [`Scenario`] is all of it as plain data; [`run`] makes a [`Report`] of it.
//!
//! - The same scenario gives the same run to the last event, on every machine: its [`Digest`] says so.
//! - Nothing here knows what time it is, waits, or reads or writes anything.
//! - An auditor keeps books of its own and says what went wrong ([`Finding`]).

mod agenda;
mod auditor;
mod digest;
mod fault;
mod finding;
pub mod oracle;
mod planted;
mod report;
mod rung;
mod scenario;
pub mod search;
mod truth;
mod world;
mod worlds;

pub use digest::Digest;
pub use fault::{Fault, FaultKind, Link};
pub use finding::{Finding, Rule};
pub use report::{Ending, Report, Request};
pub use rung::Rung;
pub use scenario::{Clients, Delay, EngineSpec, GatewaySpec, Natural, Scenario, Wires};
pub use truth::{Stalls, Truth};
pub use world::run;
pub use worlds::{Machine, Named};
