//! Making room.

use units::BlockCount;

use super::Paged;
use crate::IndexChange;

impl Paged {
    /// Evicts until so many blocks are free. If there are not enough to evict, evicts nothing and says
    /// so.
    pub(super) fn make_room(&mut self, blocks: BlockCount) -> bool {
        let fits = blocks <= self.pool.free() + self.tree.reclaimable;
        while fits && self.pool.free() < blocks {
            self.evict();
        }
        fits
    }

    /// Evicts the node that was let go the longest ago.
    ///
    /// # Panics
    /// All are pinned.
    pub(super) fn evict(&mut self) {
        let node = self.tree.evict().expect("the caller knows that something can be evicted");
        let owner = node.owner.expect("only the root has no owner");
        self.pool.give_back(&node.blocks);
        self.index.extend(node.hashes.iter().rev().map(|hash| IndexChange::Removed(*hash)));
        self.counters.evictions += 1;
        self.owners.unname(owner, false);
        if self.shares && self.owners.is_kept(owner) {
            self.owners.cut(owner, self.tree.nodes[node.parent].depth);
        }
    }
}
