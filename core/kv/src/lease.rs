//! What a sequence holds.

use units::{BlockCount, Owner};

use crate::{BlockId, handle::Handle};

/// Blocks held by one sequence, in the order of its positions, and the prefix that it pins.
#[must_use = "a lease holds blocks until it is given to `KvCore::release`"]
#[derive(Debug)]
pub struct Lease {
    pub(crate) blocks: Vec<BlockId>,
    pub(crate) cached: u32,
    /// Who keeps the tokens that were found, until the lease publishes.
    pub(crate) owner: Option<Owner>,
    /// The last node of the prefix that it pins.
    pub(crate) pin: Handle,
    /// Blocks on the path to that node.
    pub(crate) kept: BlockCount,
    /// How many of the blocks at its beginning are the very blocks of that path.
    pub(crate) shared: BlockCount,
}

impl Lease {
    /// How many blocks it holds.
    #[must_use]
    pub fn len(&self) -> BlockCount {
        BlockCount(u32::try_from(self.blocks.len()).expect("a pool counts its blocks in 32 bits"))
    }

    /// Whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// The blocks.
    #[must_use]
    pub fn blocks(&self) -> &[BlockId] {
        &self.blocks
    }

    /// How many tokens at the beginning were found, so that they need not be computed.
    #[must_use]
    pub fn cached_tokens(&self) -> u32 {
        self.cached
    }

    /// Who keeps them. `None` if there are none, or once the lease has published.
    #[must_use]
    pub fn owner(&self) -> Option<Owner> {
        self.owner
    }

    /// How many of the blocks at the beginning are kept for others too.
    #[must_use]
    pub fn shared(&self) -> BlockCount {
        self.shared
    }
}
