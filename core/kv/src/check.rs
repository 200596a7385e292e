//! The invariants, checked from outside the hot path.

use std::collections::BTreeSet;

use crate::{Lease, Pool};

impl Pool {
    /// Checks every invariant against all leases that are out.
    ///
    /// # Panics
    /// - KV-1: a block is not in exactly one of the free list and one lease.
    /// - KV-2: the mark of a block does not say which.
    pub fn check<'a>(&self, leases: impl Iterator<Item = &'a Lease>) {
        let mut seen = BTreeSet::new();
        for block in &self.free {
            assert!(seen.insert(*block), "KV-1: {block:?} twice");
            assert!(!self.held[block.0 as usize], "KV-2: free {block:?} is marked as held");
        }
        for block in leases.flat_map(Lease::blocks) {
            assert!(seen.insert(*block), "KV-1: {block:?} twice");
            assert!(self.held[block.0 as usize], "KV-2: held {block:?} is not marked");
        }
        assert_eq!(seen.len(), self.held.len(), "KV-1: blocks lost");
    }
}
