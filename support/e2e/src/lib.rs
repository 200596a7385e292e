//! The whole stack as its users run it: real processes on loopback, real HTTP.
//!
//! [`Stack::start`] -> requests, faults -> dropped. The binaries are those that `cargo build` left
//! beside the tests. Every process ends with its stack, whatever the test does. Processes may be
//! killed, stopped and started again ([`Process`]), their connections cut ([`Link`]), and what they
//! hold afterwards compared with what they held before ([`Gauges`]).

mod chat;
mod client;
mod gauges;
mod limits;
mod link;
mod process;
mod skip;
mod spec;
mod stack;
mod wiring;

pub use chat::{Answer, Chat};
pub use client::Client;
pub use gauges::{Gauges, LeftOver};
pub use limits::allow_open_files;
pub use link::{Link, Weather};
pub use process::{Conditions, Process, processor_time};
pub use skip::skipped;
pub use spec::Spec;
pub use stack::{Stack, eventually};
pub use wiring::Links;
