//! The gateway over TCP, between a client that speaks bytes and scripted upstreams.

mod api;
mod bodies;
mod cancel;
mod drain;
mod faults;
mod ready;
mod refusals;
mod sse;
mod support;
