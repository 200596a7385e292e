//! The gateway over TCP, between a client that speaks bytes and scripted upstreams.

mod api;
mod bodies;
mod cancel;
mod choices;
mod completions;
mod drain;
mod faults;
mod keys;
mod limits;
mod logprobs;
mod ready;
mod refusals;
mod retries;
mod sse;
mod support;
mod wire;
