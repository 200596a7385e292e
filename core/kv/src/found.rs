//! What a lookup found.

use units::{BlockCount, Owner, Token};

use crate::{Counters, handle::Handle};

/// The kept part of a prompt, pinned until it is handed back.
#[must_use = "a match pins what it found until it is given to `KvCore::reserve` or `KvCore::forgo`"]
#[derive(Debug)]
pub struct Match {
    /// The last node of what was found; the root if nothing was.
    pub(crate) pin: Handle,
    pub(crate) owner: Option<Owner>,
    pub(crate) withheld: BlockCount,
    pub(crate) found: Found,
}

impl Match {
    /// How many of the prompt's tokens need not be computed. Less than its length.
    #[must_use]
    pub fn tokens(&self) -> u32 {
        self.found.tokens
    }

    /// Who keeps them, until the next publication: that may name another. `None` if nothing was found.
    #[must_use]
    pub fn owner(&self) -> Option<Owner> {
        self.owner
    }

    /// Blocks that it brings to a lease. None in [`Layout::Streams`](crate::Layout); a block that would
    /// be written to is not among them.
    #[must_use]
    pub fn shared(&self) -> BlockCount {
        self.found.shared
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

/// How much was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// Tokens of the prompt.
    asked: u32,
    /// Of them, found.
    pub(crate) tokens: u32,
    /// Blocks on the path that is pinned.
    pub(crate) kept: BlockCount,
    /// Of them, those that the lease shares.
    pub(crate) shared: BlockCount,
    copied: bool,
}

impl Found {
    /// Of a prompt whose first blocks are kept. Its last token has to be computed, for its logits: where
    /// the prompt is kept whole, that writes to its last block, so a lease that shares blocks needs a copy
    /// of this one.
    pub(crate) fn new(prompt: &[Token], kept: BlockCount, shares: bool) -> Self {
        let asked = u32::try_from(prompt.len()).expect("a prompt counts its tokens in 32 bits");
        let tokens = kept.tokens().0.min(asked.saturating_sub(1));
        let copied = shares && tokens < kept.tokens().0;
        let shared = if shares { kept - BlockCount(copied.into()) } else { BlockCount(0) };
        Self { asked, tokens, kept, shared, copied }
    }

    /// What is left of it when everything kept was forgotten.
    pub(crate) fn forgotten(self) -> Self {
        let none = BlockCount(0);
        Self { tokens: 0, kept: none, shared: none, copied: false, ..self }
    }

    /// Counts that a lease was made of it.
    pub(crate) fn count(self, counters: &mut Counters) {
        counters.tokens_asked += u64::from(self.asked);
        counters.tokens_found += u64::from(self.tokens);
        counters.copies += u64::from(self.copied);
    }
}
