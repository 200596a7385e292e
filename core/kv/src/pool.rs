//! The pool of blocks.

use units::BlockCount;

use crate::Lease;

/// A block of the KV cache. Below the pool's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId(pub u32);

/// How a pool is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// All blocks.
    pub total: BlockCount,
    /// Held by leases.
    pub held: BlockCount,
    /// Held by nobody but kept for reuse.
    pub reclaimable: BlockCount,
    /// The rest.
    pub free: BlockCount,
    /// The most that one new lease can get. Less than what is free or reclaimable where a lease has to
    /// lie in one piece.
    pub largest: BlockCount,
}

/// Blocks and who may have them. The block given back last is given out first: its memory is warm.
#[derive(Debug)]
pub struct Pool {
    /// Free blocks, the next one last.
    pub(crate) free: Vec<BlockId>,
    /// Whether a lease holds the block, by block.
    pub(crate) held: Vec<bool>,
}

impl Pool {
    /// A pool of free blocks.
    #[must_use]
    pub fn new(total: BlockCount) -> Self {
        Self {
            free: (0..total.0).rev().map(BlockId).collect(),
            held: vec![false; total.0 as usize],
        }
    }

    /// Takes `count` blocks, or none if there are fewer.
    pub fn reserve(&mut self, count: BlockCount) -> Option<Lease> {
        let mut lease = Lease {
            blocks: Vec::new(),
            cached: 0,
            owner: None,
            pin: crate::handle::Handle::ROOT,
            kept: BlockCount(0),
            shared: BlockCount(0),
        };
        self.extend(&mut lease, count).then_some(lease)
    }

    /// Adds `count` blocks to a lease, or none if there are fewer. Says whether it did.
    #[must_use]
    pub fn extend(&mut self, lease: &mut Lease, count: BlockCount) -> bool {
        let Some(kept) = self.free.len().checked_sub(count.0 as usize) else { return false };
        for block in self.free.drain(kept..).rev() {
            self.held[block.0 as usize] = true;
            lease.blocks.push(block);
        }
        true
    }

    /// Takes the blocks of a lease back. By value: a second release does not compile.
    pub fn release(&mut self, lease: Lease) {
        for block in lease.blocks.into_iter().rev() {
            self.held[block.0 as usize] = false;
            self.free.push(block);
        }
    }

    /// How the pool is used.
    #[must_use]
    pub fn usage(&self) -> Usage {
        let count = |blocks: usize| {
            BlockCount(u32::try_from(blocks).expect("a pool counts its blocks in 32 bits"))
        };
        let (total, free) = (count(self.held.len()), count(self.free.len()));
        Usage { total, held: total - free, reclaimable: BlockCount(0), free, largest: free }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_lease_that_cannot_be_given_changes_nothing() {
        let mut pool = Pool::new(BlockCount(4));
        let mut lease = pool.reserve(BlockCount(3)).expect("room");
        assert!(pool.reserve(BlockCount(2)).is_none());
        assert!(!pool.extend(&mut lease, BlockCount(2)));
        assert_eq!((lease.len(), pool.usage().free), (BlockCount(3), BlockCount(1)));
        pool.release(lease);
        assert_eq!(pool.usage().free, BlockCount(4));
    }

    #[test]
    fn the_block_given_back_last_is_given_out_first() {
        let mut pool = Pool::new(BlockCount(4));
        let first = pool.reserve(BlockCount(2)).expect("room");
        let second = pool.reserve(BlockCount(1)).expect("room");
        let (warm, warmer) = (first.blocks().to_vec(), second.blocks().to_vec());
        pool.release(first);
        pool.release(second);
        let again = pool.reserve(BlockCount(3)).expect("room");
        assert_eq!(again.blocks(), [warmer, warm].concat());
        pool.release(again);
    }

    proptest! {
        #[test]
        fn blocks_are_conserved(total in 0u32..12, steps in prop::collection::vec((0u8..3, 0u32..6), 0..60)) {
            let mut pool = Pool::new(BlockCount(total));
            let mut leases: Vec<Lease> = Vec::new();
            for (kind, count) in steps {
                match kind {
                    0 => leases.extend(pool.reserve(BlockCount(count))),
                    1 => if let Some(lease) = leases.last_mut() {
                        let (before, free) = (lease.len(), pool.usage().free);
                        let grew = pool.extend(lease, BlockCount(count));
                        prop_assert_eq!(grew, free.0 >= count);
                        prop_assert_eq!(lease.len().0, before.0 + if grew { count } else { 0 });
                    },
                    _ => if !leases.is_empty() {
                        let lease = leases.swap_remove(count as usize % leases.len());
                        pool.release(lease);
                    },
                }
                pool.check(leases.iter());
            }
        }
    }
}
