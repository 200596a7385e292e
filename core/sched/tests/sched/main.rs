//! The scheduler under the mock, in virtual time.

mod bursts;
mod gaps;
mod hits;
mod kept;
mod ladder;
mod rig;
mod script;
mod soak;
mod steps;
mod storm;
mod trace;
