//! What a run says in numbers: from its rows, never from buckets.

mod compute;
mod spread;
mod text;
mod vllm;

pub(crate) use compute::Summary;
pub(crate) use spread::{Spread, quantile};
pub(crate) use text::{tenths, text};
pub(crate) use vllm::vllm;
