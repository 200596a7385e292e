//! The whole stack as its users run it: real processes on loopback, real HTTP.
//!
//! [`Stack::start`] -> requests, faults -> dropped. The binaries are those that `cargo build` left
//! beside the tests. Every process ends with its stack, whatever the test does.

mod chat;
mod process;
mod stack;

pub use chat::{Answer, Chat};
pub use process::{Process, processor_time};
pub use stack::{Spec, Stack, eventually};
