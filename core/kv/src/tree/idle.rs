//! The list of idle nodes.

use super::{Index, ROOT, Tree};
use crate::pool::count;

impl Tree {
    /// A node that nobody pins any more waits to be evicted, behind all others.
    pub(super) fn lay(&mut self, index: Index) {
        self.link_behind(self.nodes[ROOT].previous, index);
        self.reclaimable += count(self.nodes[index].blocks.len());
    }

    /// A node is not to be evicted any more.
    pub(super) fn wake(&mut self, index: Index) {
        let node = &mut self.nodes[index];
        let (previous, next) = (node.previous, node.next);
        (node.previous, node.next) = (index, index);
        self.reclaimable -= count(node.blocks.len());
        self.nodes[previous].next = next;
        self.nodes[next].previous = previous;
    }

    /// Puts a node that is not in the list behind one that is.
    pub(super) fn link_behind(&mut self, previous: Index, index: Index) {
        let next = self.nodes[previous].next;
        self.nodes[index].previous = previous;
        self.nodes[index].next = next;
        self.nodes[previous].next = index;
        self.nodes[next].previous = index;
    }

    /// The list, next to be evicted first.
    pub(crate) fn idle(&self) -> impl Iterator<Item = Index> {
        let next = |index: Index| Some(self.nodes[index].next).filter(|next| *next != ROOT);
        std::iter::successors(next(ROOT), move |index| next(*index))
    }
}
