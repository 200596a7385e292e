//! Which prefixes are kept, for those who ask beside the engine thread.
//!
//! The step loop writes it between steps, so nobody waits for a step to read it; and what was read may be
//! gone when the engine schedules. It is advice.

use std::{
    collections::HashMap,
    sync::{PoisonError, RwLock, RwLockReadGuard},
};

use kv::{BlockHash, IndexChange, Sketch};

/// Blocks that a listing names at most: 64 KiB on the wire.
const LISTED_MAX: usize = 8_192;
/// Answers that say something about how long the next will be.
const ANSWERS_LEAST: u32 = 16;

/// The index of kept blocks.
#[derive(Debug, Default)]
pub(crate) struct Prefixes {
    index: RwLock<Index>,
}

#[derive(Debug, Default)]
struct Index {
    /// Grows with every change of `blocks`.
    version: u64,
    blocks: HashMap<BlockHash, Block>,
    /// Lengths of all answers.
    answers: Sketch,
    added: u64,
}

/// A kept block.
#[derive(Debug)]
struct Block {
    /// It was added as this one. Whatever comes before it in a prompt was added before it.
    number: u64,
    /// Lengths of answers under it, where a prefix ends with it.
    answers: Option<Box<Sketch>>,
}

/// What is kept of a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Probe {
    /// Whole blocks.
    pub(crate) blocks: u32,
    /// Lengths of answers under as much of it as has seen enough of them.
    pub(crate) answers: Sketch,
}

/// What is kept, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listing {
    pub(crate) version: u64,
    pub(crate) blocks: Vec<u64>,
    pub(crate) omitted: u32,
}

impl Prefixes {
    /// Takes what changed.
    pub(crate) fn apply(&self, changes: Vec<IndexChange>) {
        if changes.is_empty() {
            return;
        }
        let mut index = self.index.write().unwrap_or_else(PoisonError::into_inner);
        changes.into_iter().for_each(|change| index.apply(change));
    }

    /// Looks up a prompt by the hashes of its whole blocks.
    pub(crate) fn probe(&self, hashes: &[BlockHash]) -> Probe {
        let index = self.read();
        let kept = hashes.iter().map_while(|hash| index.blocks.get(hash));
        let mut probe = Probe { blocks: 0, answers: index.answers.clone() };
        for block in kept {
            probe.blocks += 1;
            if let Some(answers) = block.answers.as_ref().filter(|it| it.total() >= ANSWERS_LEAST) {
                probe.answers = (**answers).clone();
            }
        }
        probe
    }

    /// What is kept, unless it is as it was at `version`. Of too many blocks those that were kept first,
    /// among which are all before them in a prompt.
    pub(crate) fn listing(&self, version: Option<u64>) -> Option<Listing> {
        let index = self.read();
        if version == Some(index.version) {
            return None;
        }
        let mut blocks: Vec<(u64, u64)> =
            index.blocks.iter().map(|(hash, block)| (block.number, hash.0)).collect();
        blocks.sort_unstable();
        let omitted = u32::try_from(blocks.len().saturating_sub(LISTED_MAX)).unwrap_or(u32::MAX);
        blocks.truncate(LISTED_MAX);
        let blocks = blocks.into_iter().map(|(_, hash)| hash).collect();
        Some(Listing { version: index.version, blocks, omitted })
    }

    fn read(&self) -> RwLockReadGuard<'_, Index> {
        // Every change leaves the index whole, so a panic elsewhere spoils nothing.
        self.index.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Index {
    fn apply(&mut self, change: IndexChange) {
        match change {
            IndexChange::Added(hash) => {
                self.added += 1;
                self.blocks.insert(hash, Block { number: self.added, answers: None });
            }
            IndexChange::Removed(hash) => drop(self.blocks.remove(&hash)),
            IndexChange::Cleared => self.blocks.clear(),
            IndexChange::Answered { under: None, answers } => {
                self.answers = *answers;
                return;
            }
            IndexChange::Answered { under: Some(hash), answers } => {
                if let Some(block) = self.blocks.get_mut(&hash) {
                    block.answers = Some(answers);
                }
                return;
            }
        }
        self.version += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hashes(numbers: std::ops::Range<u64>) -> Vec<BlockHash> {
        numbers.map(BlockHash).collect()
    }

    fn added(numbers: std::ops::Range<u64>) -> Vec<IndexChange> {
        numbers.map(|number| IndexChange::Added(BlockHash(number))).collect()
    }

    fn answered(under: Option<u64>, count: u32) -> IndexChange {
        let mut answers = Box::new(Sketch::default());
        (0..count).for_each(|_| answers.observe(10, true));
        IndexChange::Answered { under: under.map(BlockHash), answers }
    }

    #[test]
    fn a_prompt_is_kept_up_to_the_first_block_that_is_not() {
        let prefixes = Prefixes::default();
        prefixes.apply(added(1..5));
        prefixes.apply(vec![IndexChange::Removed(BlockHash(3))]);
        assert_eq!(prefixes.probe(&hashes(1..5)).blocks, 2);
        assert_eq!(prefixes.probe(&hashes(3..5)).blocks, 0);
        prefixes.apply(vec![IndexChange::Cleared]);
        assert_eq!(prefixes.probe(&hashes(1..5)).blocks, 0);
    }

    #[test]
    fn answers_are_those_of_the_longest_prefix_that_has_seen_enough() {
        let prefixes = Prefixes::default();
        prefixes.apply(added(1..5));
        prefixes.apply(vec![answered(None, 90), answered(Some(2), 20), answered(Some(4), 3)]);
        let seen = |numbers| prefixes.probe(&hashes(numbers)).answers.total();
        assert_eq!((seen(1..5), seen(1..3), seen(1..2), seen(9..9)), (20, 20, 90, 90));
        prefixes.apply(vec![answered(Some(7), 50)]);
        assert_eq!(seen(1..5), 20, "of a prefix that is not kept");
    }

    #[test]
    fn a_listing_is_made_only_when_something_changed() {
        let prefixes = Prefixes::default();
        prefixes.apply(added(1..3));
        let listing = prefixes.listing(None).expect("something is kept");
        assert_eq!((listing.blocks, listing.omitted), (vec![1, 2], 0));
        prefixes.apply(vec![answered(Some(1), 1)]);
        assert_eq!(prefixes.listing(Some(listing.version)), None);
        prefixes.apply(vec![IndexChange::Removed(BlockHash(2))]);
        assert!(prefixes.listing(Some(listing.version)).is_some());
    }

    #[test]
    fn a_long_listing_names_what_was_kept_first() {
        let prefixes = Prefixes::default();
        let all = LISTED_MAX as u64 + 5;
        prefixes.apply(added(0..all));
        prefixes.apply(vec![IndexChange::Removed(BlockHash(all - 1))]);
        let listing = prefixes.listing(None).expect("something is kept");
        assert_eq!((listing.blocks.len(), listing.omitted), (LISTED_MAX, 4));
        assert_eq!(listing.blocks.first(), Some(&0));
    }
}
