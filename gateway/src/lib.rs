//! OpenAI-compatible HTTP in front of the engine.
//!
//! A request is read and checked (`openai`), prepared by the engine, admitted by the admission service and
//! submitted to the engine (`entry`), once for each of its choices; what they say (`batch`, `generation`)
//! is framed as JSON or as server-sent events (`sse`).
//! Nothing goes out before the engine has accepted the request, so that every earlier failure keeps
//! its HTTP status; every later one is told in band. Dropping the HTTP connection drops the gRPC call,
//! and that cancels the request in every phase.
//!
//! The gateway keeps no state that matters: any number of them may stand before one engine. Each HTTP
//! worker thread has its own gRPC connections, so a token never changes threads between the engine's
//! socket and the client's.

mod app;
mod auth;
mod batch;
mod body;
mod budget;
mod buffer;
mod connection;
mod cors;
mod drain;
mod edge;
mod entry;
mod error;
mod fallback;
mod generation;
mod metrics;
mod openai;
mod order;
mod probe;
mod route;
mod server;
mod settings;
mod shared;
mod slo;
mod sse;
mod upstream;

pub use app::App;
pub use auth::Secret;
pub use settings::{Fallback, HttpSettings, KeySettings, OverloadStatus, Settings};
