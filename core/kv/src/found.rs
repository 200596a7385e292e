//! What a lookup found.

use units::{BlockCount, Owner};

use crate::handle::Handle;

/// The kept part of a prompt, pinned until it is handed back.
#[must_use = "a match pins what it found until it is given to `KvCore::reserve` or `KvCore::forgo`"]
#[derive(Debug)]
pub struct Match {
    /// The last node of what was found; the root if nothing was.
    pub(crate) pin: Handle,
    /// Tokens of the prompt.
    pub(crate) asked: u32,
    pub(crate) tokens: u32,
    pub(crate) owner: Option<Owner>,
    /// Blocks on the path to the node that is pinned.
    pub(crate) kept: BlockCount,
    pub(crate) shared: BlockCount,
    pub(crate) withheld: BlockCount,
}

impl Match {
    /// How many of the prompt's tokens need not be computed. Less than its length.
    #[must_use]
    pub fn tokens(&self) -> u32 {
        self.tokens
    }

    /// Who keeps them. It goes on to as long as this match, or the lease that is made of it, is out and
    /// has not published. `None` if nothing was found.
    #[must_use]
    pub fn owner(&self) -> Option<Owner> {
        self.owner
    }

    /// Blocks that it brings to a lease. None in [`Layout::Streams`](crate::Layout); a block that would
    /// be written to is not among them.
    #[must_use]
    pub fn shared(&self) -> BlockCount {
        self.shared
    }

    /// Blocks that were reclaimable before this lookup pinned them.
    ///
    /// Of what is free or reclaimable before the lookups of a plan, each of them takes this much, whether
    /// it becomes a lease or not. Counted behind all of them, what is free or reclaimable is simply there
    /// to be reserved.
    #[must_use]
    pub fn withheld(&self) -> BlockCount {
        self.withheld
    }
}
