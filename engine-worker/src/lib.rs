//! The engine worker: the only process that knows the model, and the authority on what runs.
//!
//! ```text
//! gRPC (tokio) --commands--> step loop (one OS thread) --text--> one channel a request --> gRPC
//!      |                      scheduler + engine                                            ^
//!      +-- Prepare: template, tokeniser (blocking pool)    records, snapshots --> hub ------+
//! ```
//!
//! The step loop owns the llama.cpp context and the scheduler; nothing else touches either. It never
//! waits for anybody: commands are drained between steps, text goes into channels that are bounded by
//! each answer's own length.

pub mod app;
pub mod backend;
pub mod calibration;
pub mod cli;
pub mod profile;
pub mod provenance;
pub mod settings;

mod digest;
mod engine_thread;
mod grpc;
mod hub;
mod identity;
mod laps;
mod metrics;
#[cfg(feature = "llama")]
mod optimize;
mod outlet;
mod prefixes;
mod prepare;
mod scheduling;
mod step_loop;
mod submit;
mod watch;
mod wire;

pub use app::App;
pub use settings::EngineSettings;
