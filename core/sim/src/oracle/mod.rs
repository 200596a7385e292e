//! Oracles: what could be had at most, and what somebody who knows more can have.
//!
//! | oracle | knows | what it is |
//! |---|---|---|
//! | [`lp`] | arrivals, lengths | an upper bound: rigorous, and loose |
//! | [`fluid`] | arrivals, lengths | an upper bound but for luck: one operating point at a time, no randomness |
//! | [`blind`] | arrivals, the law of lengths | the same for those who do not know lengths |
//! | [`clairvoyant`] | arrivals, lengths, noise | a set that was verified by simulation: a lower bound of the best |
//! | [`refusal_floor`] | the miss rate without admission | what any rule has to refuse: arithmetic |
//!
//! [`blind_ceiling`] is an estimate: the blind bound, scaled by how much of its own bound the clairvoyant
//! schedule reaches.
//!
//! All of them price a request in machine time: its prompt as far as nobody shares it, and its tokens at what
//! a token costs in a batch.

mod bounds;
mod clairvoyant;
mod job;

pub use bounds::{blind, blind_ceiling, fluid, lp, refusal_floor};
pub use clairvoyant::{Clairvoyance, clairvoyant};
pub use job::{Job, Price, jobs};
