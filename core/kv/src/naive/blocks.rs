//! Blocks of the reference.

use units::BlockCount;

use super::{Naive, prefixes::Prefix};
use crate::{BlockId, Cut, IndexChange, hash::block_hashes, pool::count};

impl Naive {
    /// Blocks of prefixes that nobody pins.
    pub(super) fn reclaimable(&self) -> BlockCount {
        let idle = self.prefixes.iter().filter(|it| !self.is_pinned(it));
        count(idle.map(|it| it.blocks.len()).sum())
    }

    /// Takes free blocks for a lease, to the end of `table`; evicts for them what it has to. If there are
    /// not enough to evict, evicts nothing and says so.
    pub(super) fn take(&mut self, blocks: BlockCount, table: &mut Vec<BlockId>) -> bool {
        if blocks > count(self.free.len()) + self.reclaimable() {
            return false;
        }
        while count(self.free.len()) < blocks {
            self.evict();
        }
        for _ in 0..blocks.0 {
            let block = self.free.pop().expect("counted above");
            self.leased.push(block);
            table.push(block);
        }
        true
    }

    /// Takes the blocks of a lease back.
    pub(super) fn give_back(&mut self, blocks: &[BlockId]) {
        for block in blocks {
            let at = self.leased.iter().position(|other| other == block);
            self.leased.swap_remove(at.expect("a lease's blocks are leased"));
        }
        self.free_unheld(blocks);
    }

    /// Of these, those that nobody holds become free. The first is given out first.
    pub(super) fn free_unheld(&mut self, blocks: &[BlockId]) {
        for block in blocks.iter().rev() {
            let kept = self.prefixes.iter().any(|it| it.blocks.contains(block));
            if !kept && !self.leased.contains(block) {
                self.free.push(*block);
            }
        }
    }

    /// Evicts the prefix that was let go the longest ago, of those that nobody pins and that no other
    /// goes on from. Says whether there was one.
    pub(super) fn evict(&mut self) -> bool {
        let idle = |it: &&Prefix| !self.is_pinned(it) && !self.goes_on(it);
        let Some(oldest) = self.prefixes.iter().filter(idle).min_by_key(|it| it.let_go) else {
            return false;
        };
        let number = oldest.number;
        let at = self.prefixes.iter().position(|it| it.number == number).expect("just found");
        let gone = self.prefixes.remove(at);
        self.free_unheld(&gone.blocks);
        let hashes: Vec<_> = block_hashes(&gone.path).skip(gone.from / super::BLOCK).collect();
        self.index.extend(hashes.into_iter().rev().map(IndexChange::Removed));
        self.counters.evictions += 1;
        let owner = gone.owner.expect("every prefix has an owner between two operations");
        self.settle(owner);
        if self.shares() && !self.free_owners.contains(&owner) {
            let tokens = u32::try_from(gone.from).expect("prompts count their tokens in 32 bits");
            self.cuts.push(Cut { owner, tokens });
        }
        true
    }
}
