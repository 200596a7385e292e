//! What a sequence holds.

use units::{BlockCount, Owner};

use crate::{BlockId, found::Found, handle::Handle, pool::count};

/// Blocks held by one sequence, in the order of its positions, and the prefix that it pins.
#[must_use = "a lease holds blocks until it is given to `KvCore::release`"]
#[derive(Debug)]
pub struct Lease {
    pub(crate) blocks: Vec<BlockId>,
    pub(crate) cached: u32,
    pub(crate) owner: Option<Owner>,
    /// The last node of the prefix that it pins.
    pub(crate) pin: Handle,
    /// Blocks on the path to that node.
    pub(crate) kept: BlockCount,
    /// How many of the blocks at its beginning are the very blocks of that path.
    pub(crate) shared: BlockCount,
}

impl Lease {
    pub(crate) fn new(
        blocks: Vec<BlockId>,
        pin: Handle,
        owner: Option<Owner>,
        found: Found,
    ) -> Self {
        let Found { tokens, kept, shared, .. } = found;
        Self { blocks, cached: tokens, owner, pin, kept, shared }
    }

    /// How many blocks it holds.
    #[must_use]
    pub fn len(&self) -> BlockCount {
        count(self.blocks.len())
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

    /// Who kept them when the lease was made, and does until the next publication. `None` if there were
    /// none.
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
