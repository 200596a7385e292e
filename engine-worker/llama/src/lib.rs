//! llama.cpp as a Cadence engine: the only crate that knows it.
//!
//! Open a [`Model`] once, share it with the threads that tokenise, make a [`Context`] on the engine
//! thread, and give it to the step loop as a [`sched::Engine`].
//!
//! llama.cpp answers a wrong call by aborting the process or by writing past its buffers. So nothing
//! reaches it unchecked: a file is read through once before it is mapped, and a plan is compared with
//! what every slot holds before a row of it is batched.
//!
//! Each sequence has its own stream of KV cells, so that a row attends to its own sequence only; flash
//! attention is always on.

mod backend;
mod context;
mod gguf;
mod ledger;
mod model;
mod yardstick;

pub use context::{Context, ContextError, Options};
pub use gguf::GgufError;
pub use model::{Facts, Model, OpenError};
pub use yardstick::{Yardstick, YardstickError};
