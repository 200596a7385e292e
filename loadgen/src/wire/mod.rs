//! The HTTP client: one connection for each request in flight, as many as it takes.
//!
//! A request takes an idle connection or opens one; nothing is ever waited for, because a limit here
//! would be backpressure, and backpressure would make the open loop a closed one.

mod chunk;
mod connect;
mod exchange;
mod failure;
mod model;
mod pool;
mod sse;
mod target;
mod tls;

pub(crate) use chunk::body as request_body;
pub(crate) use connect::Client;
pub(crate) use exchange::{Call, Trail};
pub(crate) use failure::{Class, Failure};
pub(crate) use model::first as first_model;
pub(crate) use target::{Api, Target};
pub(crate) use tls::Trust;
