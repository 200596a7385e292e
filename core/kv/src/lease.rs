//! What a sequence holds.

use units::BlockCount;

use crate::BlockId;

/// Blocks held by one sequence, in the order of its positions.
#[must_use = "a lease holds blocks until it is given to `Pool::release`"]
#[derive(Debug, PartialEq, Eq)]
pub struct Lease {
    pub(crate) blocks: Vec<BlockId>,
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
}
