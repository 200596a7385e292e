//! What an engine would hold that does as it is told.

use std::collections::{BTreeMap, BTreeSet};

use kv::{BlockHash, BlockId, Cut, IndexChange, Lease, block_hashes};
use units::{BLOCK_TOKENS, Owner, Token};

/// What owners keep: their tokens, and in the unified layout the blocks that these lie in.
#[derive(Default)]
pub(crate) struct Ghost {
    owners: BTreeMap<Owner, (Vec<Token>, Vec<BlockId>)>,
    index: BTreeSet<BlockHash>,
}

impl Ghost {
    /// An owner that keeps nothing begins to keep the first tokens of a lease.
    pub(crate) fn keep(&mut self, owner: Owner, tokens: &[Token], blocks: &[BlockId]) {
        let old = self.owners.insert(owner, (tokens.to_vec(), blocks.to_vec()));
        assert!(old.is_none(), "{owner:?} keeps something already");
        let unknown = |hash: &BlockHash| !self.index.contains(hash);
        assert_eq!(block_hashes(tokens).find(unknown), None, "kept, but not in the index");
    }

    /// Owners give up what they are told to.
    pub(crate) fn cut(&mut self, cuts: &[Cut]) {
        for Cut { owner, tokens } in cuts {
            let (kept, blocks) = self.owners.get_mut(owner).expect("only kept owners are cut");
            assert!((*tokens as usize) < kept.len(), "{owner:?} keeps no more than {tokens}");
            kept.truncate(*tokens as usize);
            blocks.truncate((tokens / BLOCK_TOKENS) as usize);
            if *tokens == 0 {
                self.owners.remove(owner);
            }
        }
    }

    /// The index follows, each change a change.
    pub(crate) fn change(&mut self, changes: &[IndexChange]) {
        for change in changes {
            match change {
                IndexChange::Added(hash) => assert!(self.index.insert(*hash), "{hash:?} twice"),
                IndexChange::Removed(hash) => assert!(self.index.remove(hash), "{hash:?} unknown"),
                IndexChange::Cleared => self.index.clear(),
                IndexChange::Answered { under, .. } => {
                    let kept = under.is_none_or(|hash| self.index.contains(&hash));
                    assert!(kept, "{under:?} is not kept");
                }
            }
        }
    }

    /// An owner really keeps what was found.
    pub(crate) fn check_promise(&self, owner: Option<Owner>, found: &[Token]) {
        assert_eq!(owner.is_some(), !found.is_empty());
        let Some(owner) = owner else { return };
        let (kept, _) = &self.owners[&owner];
        assert!(kept.starts_with(found), "KV-15: {owner:?} does not keep what was found");
    }

    /// What the books give out as free holds nobody's cells: neither an owner's nor another lease's.
    pub(crate) fn check_fresh<'a>(
        &self,
        fresh: &[BlockId],
        others: impl Iterator<Item = &'a Lease>,
    ) {
        let kept = self.owners.values().flat_map(|(_, blocks)| blocks);
        let taken: BTreeSet<_> =
            others.flat_map(Lease::blocks).copied().chain(kept.copied()).collect();
        let twice = fresh.iter().find(|block| taken.contains(block));
        assert_eq!(twice, None, "KV-15: a free block has somebody's cells in it");
    }

    pub(crate) fn check_counts(&self, owners: u64, blocks: u64) {
        assert_eq!((self.owners.len() as u64, self.index.len() as u64), (owners, blocks));
    }
}
