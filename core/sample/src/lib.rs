//! Token sampling: a row of logits in, a token out.
//!
//! A [`Sampler`] belongs to one sequence and lives as long as it. Which tokens may be drawn is decided
//! on the row itself, as a cut through its values; the row is never sorted, and copied only where bias
//! or penalties change it.
//!
//! The draw is a function of the row, the parameters and the tokens of the sequence, and its arithmetic
//! is the same on every machine. So a preempted sequence goes on exactly where it was, and a seed means
//! the same text wherever the logits are the same.
//!
//! [`Logprobs`] say how likely a token was under the model itself, for those who ask; nobody else pays.
//!
//! A row may hold anything: NaN is never drawn, and a row that has no likeliest finite logit is
//! answered greedily.

mod adjust;
mod cut;
mod draw;
mod logprob;
mod params;
mod row;
mod sampler;

pub use logprob::{Logprob, Logprobs, TOP_LOGPROBS_MAX};
pub use params::{Bias, Sampling, SamplingError};
pub use sampler::Sampler;
