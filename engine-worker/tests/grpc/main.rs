//! The worker over gRPC: on the mock, and on the real default model.

#[cfg(feature = "llama")]
mod kept;
mod life;
mod logprobs;
mod metrics;
#[cfg(feature = "llama")]
mod model;
#[cfg(feature = "llama")]
mod optimized;
mod prefixes;
mod worker;
