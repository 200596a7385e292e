//! The children of a node.

use super::Index;
use crate::BlockHash;

/// Children by the hash of their first block. Two may share one: whoever looks compares tokens too.
#[derive(Debug, Default)]
pub(crate) struct Children(Vec<(BlockHash, Index)>);

impl Children {
    pub(crate) fn iter(&self) -> impl Iterator<Item = Index> {
        self.0.iter().map(|(_, index)| *index)
    }

    /// Those whose first block has this hash.
    pub(super) fn with(&self, hash: BlockHash) -> impl Iterator<Item = Index> {
        let at = self.first(hash);
        self.0[at..].iter().take_while(move |(other, _)| *other == hash).map(|(_, index)| *index)
    }

    pub(super) fn insert(&mut self, hash: BlockHash, index: Index) {
        self.0.insert(self.first(hash), (hash, index));
    }

    /// Takes one out.
    pub(super) fn remove(&mut self, hash: BlockHash, index: Index) {
        let at = self.place(hash, index);
        self.0.remove(at);
    }

    /// Puts another in the place of one, that begins with the same block.
    pub(super) fn replace(&mut self, hash: BlockHash, old: Index, new: Index) {
        let at = self.place(hash, old);
        self.0[at].1 = new;
    }

    fn first(&self, hash: BlockHash) -> usize {
        self.0.partition_point(|(other, _)| *other < hash)
    }

    fn place(&self, hash: BlockHash, index: Index) -> usize {
        let behind = self.with(hash).position(|other| other == index);
        self.first(hash) + behind.expect("every node is among its parent's children")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_whose_hashes_collide_are_told_apart() {
        let [low, same, high] = [1, 2, 3].map(BlockHash);
        let mut children = Children::default();
        for (hash, index) in [(same, 10), (high, 11), (same, 12), (low, 13)] {
            children.insert(hash, index);
        }
        let found = |children: &Children| children.with(same).collect::<Vec<_>>();
        assert_eq!(found(&children), [12, 10]);
        children.replace(same, 10, 20);
        children.remove(same, 12);
        assert_eq!(found(&children), [20]);
        assert_eq!(children.iter().collect::<Vec<_>>(), [13, 20, 11]);
    }
}
