//! A run of kept blocks.

use units::{BlockCount, Owner, Token};

use super::{Index, ROOT, children::Children};
use crate::{BlockHash, BlockId, Sketch, hash::hashes_from, pool::count};

/// A run of kept blocks.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) parent: Index,
    /// Blocks from the root through this node.
    pub(crate) depth: BlockCount,
    /// At least a block, but for the root.
    pub(crate) tokens: Vec<Token>,
    /// Of each block.
    pub(crate) hashes: Vec<BlockHash>,
    /// What it holds of the pool. Nothing where leases share no blocks.
    pub(crate) blocks: Vec<BlockId>,
    /// Whose KV holds the whole path to this node. The root has none.
    pub(crate) owner: Option<Owner>,
    /// Leases and matches that pin it or a node below it.
    pub(crate) pins: u32,
    /// Its neighbours in the list of idle nodes. Itself, if it is not there.
    pub(crate) previous: Index,
    pub(crate) next: Index,
    pub(crate) children: Children,
    /// Answers seen under this prefix.
    pub(crate) answers: Sketch,
}

impl Node {
    pub(super) fn root() -> Self {
        Self {
            parent: ROOT,
            depth: BlockCount(0),
            tokens: Vec::new(),
            hashes: Vec::new(),
            blocks: Vec::new(),
            owner: None,
            pins: 0,
            previous: ROOT,
            next: ROOT,
            children: Children::default(),
            answers: Sketch::default(),
        }
    }

    /// A node under `above`, pinned once.
    pub(super) fn new(
        parent: Index,
        above: &Self,
        tokens: &[Token],
        blocks: &[BlockId],
        owner: Owner,
    ) -> Self {
        let hashes: Vec<_> = hashes_from(above.last_hash(), tokens).collect();
        Self {
            parent,
            depth: above.depth + count(hashes.len()),
            tokens: tokens.to_vec(),
            hashes,
            blocks: blocks.to_vec(),
            owner: Some(owner),
            pins: 1,
            ..Self::root()
        }
    }

    /// The hash of its last block.
    pub(crate) fn last_hash(&self) -> BlockHash {
        self.hashes.last().copied().unwrap_or(BlockHash::ROOT)
    }
}
