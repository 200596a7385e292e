//! Splitting a node.

use units::BLOCK_TOKENS;

use super::{Index, Node, Tree, children::Children};
use crate::{owners::Owners, pool::count};

impl Tree {
    /// Splits a node behind its first `blocks` blocks. What hangs below it, pins it or names it goes on to
    /// find the second half under its index. Answers the first half, which is named, pinned and recent
    /// as the whole was.
    pub(super) fn split(&mut self, lower: Index, blocks: usize, owners: &mut Owners) -> Index {
        let node = &mut self.nodes[lower];
        let upper = Node {
            depth: node.depth - count(node.hashes.len() - blocks),
            tokens: node.tokens.drain(..blocks * BLOCK_TOKENS as usize).collect(),
            hashes: node.hashes.drain(..blocks).collect(),
            blocks: node.blocks.drain(..blocks.min(node.blocks.len())).collect(),
            children: Children::default(),
            answers: node.answers.clone(),
            ..*node
        };
        let (first, second) = (upper.hashes[0], node.hashes[0]);
        let (parent, pins, owner) = (upper.parent, upper.pins, upper.owner);
        let index = self.nodes.insert(upper);
        self.nodes[index].children.insert(second, lower);
        self.nodes[lower].parent = index;
        self.nodes[parent].children.replace(first, lower, index);
        if pins == 0 {
            self.link_behind(lower, index);
        }
        owners.name(owner.expect("only the root has no owner"), pins > 0);
        self.splits += 1;
        index
    }
}
