//! llama.cpp as a Cadence engine: the only crate that knows it.
//!
//! Open a [`Model`] once, share it with the threads that tokenise, make a [`Context`] on the engine
//! thread, and give it to the step loop as a [`sched::Engine`].
//!
//! llama.cpp answers a wrong call by aborting the process or by writing past its buffers. So nothing
//! reaches it unchecked: a file is read through once before it is mapped, and a plan is compared with
//! what every slot holds before a row of it is batched.
//!
//! Sequences and the prefixes that are kept of them lie in one of two layouts ([`LayoutKind`]); flash
//! attention is always on.

mod backend;
mod context;
mod evaluator;
mod gguf;
mod layout;
mod ledger;
mod memory;
mod model;
mod note;
mod options;
mod quantize;
mod yardstick;

/// The version of llama.cpp, by the crate that brings it.
pub const VERSION: &str = "llama-cpp-2 0.1.160";

pub use context::Context;
pub use evaluator::{EvaluateError, Evaluator, Scored};
pub use gguf::GgufError;
pub use model::{Facts, Model, OpenError};
pub use note::{NoteError, copy_with_note, read_note};
pub use options::{ContextError, LayoutKind, Options};
pub use quantize::{Quantization, QuantizeError, quantize};
pub use yardstick::{Yardstick, YardstickError};

#[cfg(test)]
mod tests {
    #[test]
    fn the_version_is_the_one_that_is_built() {
        let manifest = include_str!("../../../Cargo.toml");
        let version = super::VERSION.rsplit(' ').next().expect("a version");
        assert!(manifest.contains(&format!("llama-cpp-2 = {{ version = \"={version}\"")));
    }
}
