//! What a core is made of.

use units::BlockCount;

use crate::{KvCore, contiguous::Contiguous, naive::Naive, paged::Paged};

/// What is shared, and what a kept prefix costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// One pool of cells. Sequences and the cache share blocks; owners are further sequences.
    Unified,
    /// A stream of cells for each sequence. Owners are states saved outside of the pool.
    Streams {
        /// What one token of a saved state takes.
        token_bytes: u64,
        /// What all saved states may take together.
        bytes_max: u64,
    },
}

/// What a core is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Blocks of the pool.
    pub blocks: BlockCount,
    /// Who shares them.
    pub layout: Layout,
    /// How many owners there are. With none, nothing is kept.
    pub owners: u32,
    /// Whether prefixes are kept at all.
    pub prefixes: bool,
}

/// The cores that there are. The same calls get the same answers from [`Kind::Paged`] and
/// [`Kind::Naive`], block ids included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Blocks wherever they are free, and a radix tree of kept prefixes.
    Paged,
    /// The same, written to be obviously right rather than fast: the reference.
    Naive,
    /// Each lease lies in one piece; nothing is kept.
    Contiguous,
}

impl Kind {
    /// A core with nothing in it.
    #[must_use]
    pub fn build(self, options: Options) -> Box<dyn KvCore> {
        match self {
            Self::Paged => Box::new(Paged::new(&options)),
            Self::Naive => Box::new(Naive::new(options)),
            Self::Contiguous => Box::new(Contiguous::new(&options)),
        }
    }
}
