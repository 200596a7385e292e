//! The KV core: who holds which block.
//!
//! reserve -> (extend) -> release. A sequence takes blocks of 16 tokens from the [`Pool`] as a
//! [`Lease`], a value that it must hand back. The pool never blocks and never guesses: what it cannot
//! give, it refuses, and nothing has changed.
//!
//! What is absent: the pool does not know sequences, time or a backend.

mod check;
mod lease;
mod pool;

pub use lease::Lease;
pub use pool::{BlockId, Pool, Usage};
