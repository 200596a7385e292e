//! The admission service: one actor around the pure controller, a watcher for each engine, and the
//! gRPC services in front.
//!
//! Watchers tell the actor what the engines say; callers ask it through gRPC. Only the actor touches
//! the controller, only `convert` turns wire types into domain types, and only `reply` the other
//! way. Nothing here decides anything.

mod actor;
mod app;
mod backoff;
pub mod cli;
mod convert;
mod grpc;
mod guard;
mod message;
mod metrics;
mod reply;
mod settings;
mod traces;
mod watch;

pub use app::App;
pub use convert::Invalid;
pub use metrics::describe;
pub use settings::{PolicyName, Settings};
pub use traces::{
    Caps, Disk, Facts, FrameError, Page, Ring, StoreError, TraceStore, decode, encode,
};
