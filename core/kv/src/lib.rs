//! The KV core: who holds which block, and which prefixes are kept.
//!
//! See [`KvCore`] for the life of a lease.

mod check;
mod core;
mod found;
mod handle;
mod hash;
mod lease;
mod options;
mod paged;
mod pool;
mod sketch;

pub use crate::core::{Counters, Cut, IndexChange, KvCore};
pub use found::Match;
pub use hash::{BlockHash, block_hashes};
pub use lease::Lease;
pub use options::{Kind, Layout, Options};
pub use pool::{BlockId, Pool, Usage};
pub use sketch::{Bucket, Sketch};
