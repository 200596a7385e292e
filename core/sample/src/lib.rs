//! Token sampling: a row of logits in, a token out.
//!
//! A [`Sampler`] belongs to one sequence and lives as long as it. Which tokens may be drawn is decided
//! on the row itself, as a cut through its values; the row is neither copied nor sorted.
//!
//! The draw is a function of the row, the parameters and the number of tokens drawn before, and its
//! arithmetic is the same on every machine. So a preempted sequence goes on exactly where it was, and
//! a seed means the same text wherever the logits are the same.
//!
//! A row may hold anything: NaN is never drawn, and a row that has no likeliest finite logit is
//! answered greedily.

mod cut;
mod params;
mod row;
mod sampler;

pub use params::{Sampling, SamplingError};
pub use sampler::Sampler;
