//! The radix tree of kept prefixes.
//!
//! A node is a run of whole blocks behind those of its parent; no two children of a node begin with the
//! same block. Where a prompt leaves a run in its middle, the run is split, so that everything is matched
//! and pinned to the block.
//!
//! Who uses a prefix pins its last node, and thereby all nodes above. A node that nobody pins is idle and
//! waits in a list to be evicted: whoever lets a path go puts its nodes at the end, the deepest first.
//! Nothing else puts nodes there, so a node comes behind all its descendants, and the first of the list
//! is a leaf, the one that was let go the longest ago.
//!
//! The tree knows tokens, pins and recency. Who holds the blocks that its nodes name is counted in the
//! pool, and who is named as an owner, with and without a pin, in the owners that pinning is handed.

mod children;
mod descend;
mod idle;
mod node;
mod pins;
mod split;
mod store;

use units::{BlockCount, Owner, Token};

use crate::{BlockId, IndexChange, Sketch, handle::Handle, owners::Owners};

pub(crate) use descend::same_blocks;
pub(crate) use node::Node;
pub(crate) use store::Index;
use store::Store;

/// The node of the empty prefix. Never pinned, never idle: the list of idle nodes begins and ends here.
pub(crate) const ROOT: Index = 0;

/// The radix tree of kept prefixes.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) nodes: Store,
    /// Blocks of idle nodes.
    pub(crate) reclaimable: BlockCount,
    pub(crate) splits: u64,
    /// Tokens of all nodes.
    pub(crate) tokens: u64,
}

impl Tree {
    pub(crate) fn new() -> Self {
        Self { nodes: Store::new(), reclaimable: BlockCount(0), splits: 0, tokens: 0 }
    }

    /// Where a node lives, if it does.
    pub(crate) fn find(&self, handle: Handle) -> Option<Index> {
        self.nodes.find(handle)
    }

    /// Nodes from this one up, the root left out.
    pub(crate) fn path(&self, at: Index) -> impl Iterator<Item = &Node> {
        let node = |index: Index| (index != ROOT).then(|| &self.nodes[index]);
        std::iter::successors(node(at), move |below| node(below.parent))
    }

    /// Hangs a node under one that the caller pins; its pin moves to the new one.
    pub(crate) fn insert(
        &mut self,
        parent: Index,
        tokens: &[Token],
        blocks: &[BlockId],
        owner: Owner,
    ) -> Index {
        let above = &self.nodes[parent];
        let node = Node::new(parent, above, tokens, blocks, owner);
        let first = node.hashes[0];
        self.tokens += tokens.len() as u64;
        let index = self.nodes.insert(node);
        self.nodes[parent].children.insert(first, index);
        index
    }

    /// Takes the node out that was let go the longest ago.
    pub(crate) fn evict(&mut self) -> Option<Node> {
        let index = self.nodes[ROOT].next;
        if index == ROOT {
            return None;
        }
        self.wake(index);
        let node = self.nodes.remove(index);
        self.tokens -= node.tokens.len() as u64;
        self.nodes[node.parent].children.remove(node.hashes[0], index);
        Some(node)
    }

    /// Takes all nodes out, pinned or not. Handles of theirs find nothing from now on.
    pub(crate) fn clear(&mut self) -> Vec<Node> {
        self.reclaimable = BlockCount(0);
        self.tokens = 0;
        self.nodes.clear()
    }

    /// Counts an answer at a node and all above it, and says so.
    pub(crate) fn note_answer(
        &mut self,
        at: Index,
        tokens: u32,
        ended: bool,
        changes: &mut Vec<IndexChange>,
    ) {
        let mut index = at;
        loop {
            let node = &mut self.nodes[index];
            node.answers.observe(tokens, ended);
            changes.push(IndexChange::Answered {
                under: node.hashes.last().copied(),
                answers: Box::new(node.answers.clone()),
            });
            if index == ROOT {
                break;
            }
            index = node.parent;
        }
    }

    /// The answers of the last node on the path of `tokens` that has at least so many, else of the root.
    pub(crate) fn answers(&self, tokens: &[Token], least: u32) -> &Sketch {
        let counted = |index: &Index| self.nodes[*index].answers.total() >= least;
        let last = self.along(tokens).filter(counted).last();
        &self.nodes[last.unwrap_or(ROOT)].answers
    }

    /// Names another owner, at a pinned node and all above it.
    pub(crate) fn rename(&mut self, at: Index, owner: Owner, owners: &mut Owners) {
        let mut index = at;
        while index != ROOT {
            let node = &mut self.nodes[index];
            node.owner = Some(owner);
            index = node.parent;
            owners.name(owner, true);
        }
    }
}
