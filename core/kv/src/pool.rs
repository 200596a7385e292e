//! The pool of blocks, and how many hold each.

use units::BlockCount;

/// A block of the KV cache. Below the pool's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId(pub u32);

impl BlockId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// Blocks and how many hold each: leases, and nodes of kept prefixes. The block given back last is given
/// out first: its memory is warm.
#[derive(Debug)]
pub(crate) struct Pool {
    /// Free blocks, the next one last.
    pub(crate) free: Vec<BlockId>,
    pub(crate) holders: Vec<u32>,
}

impl Pool {
    /// A pool of free blocks, the one with the lowest id to be given out first.
    pub(crate) fn new(total: BlockCount) -> Self {
        Self { free: (0..total.0).rev().map(BlockId).collect(), holders: vec![0; total.0 as usize] }
    }

    pub(crate) fn total(&self) -> BlockCount {
        count(self.holders.len())
    }

    pub(crate) fn free(&self) -> BlockCount {
        count(self.free.len())
    }

    /// Takes free blocks, to the end of `blocks`.
    ///
    /// # Panics
    /// There are fewer.
    pub(crate) fn take(&mut self, count: BlockCount, blocks: &mut Vec<BlockId>) {
        let kept = self.free.len().checked_sub(count.0 as usize).expect("the caller has made room");
        for block in self.free.drain(kept..).rev() {
            self.holders[block.index()] = 1;
            blocks.push(block);
        }
    }

    /// One more holds these.
    pub(crate) fn share(&mut self, blocks: &[BlockId]) {
        for block in blocks {
            self.holders[block.index()] += 1;
        }
    }

    /// One less holds these. Of those that nobody holds any more, the first is given out first.
    pub(crate) fn give_back(&mut self, blocks: &[BlockId]) {
        for block in blocks.iter().rev() {
            let holders = &mut self.holders[block.index()];
            *holders -= 1;
            if *holders == 0 {
                self.free.push(*block);
            }
        }
    }
}

/// A length as a count of blocks.
pub(crate) fn count(blocks: usize) -> BlockCount {
    BlockCount(u32::try_from(blocks).expect("a pool counts its blocks in 32 bits"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids<const N: usize>(ids: [u32; N]) -> Vec<BlockId> {
        ids.map(BlockId).to_vec()
    }

    fn taken(pool: &mut Pool, count: u32) -> Vec<BlockId> {
        let mut blocks = Vec::new();
        pool.take(BlockCount(count), &mut blocks);
        blocks
    }

    #[test]
    fn the_block_given_back_last_is_given_out_first() {
        let mut pool = Pool::new(BlockCount(4));
        let warm = taken(&mut pool, 2);
        let warmer = taken(&mut pool, 1);
        pool.give_back(&warm);
        pool.give_back(&warmer);
        assert_eq!(taken(&mut pool, 3), ids([2, 0, 1]));
    }

    #[test]
    fn a_shared_block_is_free_once_the_last_has_given_it_back() {
        let mut pool = Pool::new(BlockCount(3));
        let blocks = taken(&mut pool, 2);
        pool.share(&blocks[..1]);
        pool.give_back(&blocks);
        assert_eq!(pool.free, ids([2, 1]));
        pool.give_back(&blocks[..1]);
        assert_eq!(pool.free, ids([2, 1, 0]));
    }

    #[test]
    #[should_panic(expected = "made room")]
    fn no_more_is_given_out_than_there_is() {
        taken(&mut Pool::new(BlockCount(0)), 1);
    }
}
