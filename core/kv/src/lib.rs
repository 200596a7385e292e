//! The KV core: who holds which block, and which prefixes are kept.
//!
//! See [`KvCore`] for the life of a lease, and [`Kind`] for the cores that there are.

mod contiguous;
mod core;
mod found;
mod handle;
mod hash;
mod lease;
mod naive;
mod options;
mod owners;
mod paged;
mod pool;
mod sketch;
mod slab;
mod tree;
mod usage;

pub use crate::core::{Counters, Cut, IndexChange, KvCore};
pub use found::Match;
pub use hash::{BlockHash, block_hashes};
pub use lease::Lease;
pub use options::{Kind, Layout, Options};
pub use pool::BlockId;
pub use sketch::{Bucket, Sketch};
pub use usage::Usage;
