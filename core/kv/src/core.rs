//! What the scheduler needs from a KV core.

use std::fmt::Debug;

use units::{BlockCount, Owner, Token};

use crate::{BlockHash, Lease, Match, Sketch, Usage};

/// Who holds which block, and which prefixes are kept.
///
/// ```text
/// lookup -> Match (pinned) -> reserve -> Lease -> (grow, publish)* -> release
///              `-> forgo
/// ```
///
/// Matches and leases are values that must be handed back, once, to the core that gave them:
///
/// ```compile_fail,E0382
/// fn hand_back_twice(core: &mut dyn kv::KvCore) {
///     let found = core.lookup(&[]);
///     core.forgo(found);
///     core.forgo(found);
/// }
/// ```
///
/// Nothing here knows time. A prefix is as recent as the last match or lease that let it go, so the
/// same calls give the same evictions, block ids included.
pub trait KvCore: Debug + Send {
    /// The kept part of a prompt, pinned: whatever happens, it is not evicted before the match is
    /// handed back or its lease is released. At most all tokens but the last, which has to be computed
    /// for its logits.
    fn lookup(&mut self, prompt: &[Token]) -> Match;

    /// Gives a match back unused. What it found is then the last to be evicted.
    fn forgo(&mut self, found: Match);

    /// Turns a match into a lease of `blocks` blocks, those that it shares included and no fewer than
    /// these; evicts for them what nobody pins, the least recent first.
    ///
    /// # Errors
    /// There are fewer. The match comes back, still pinned, and nothing was evicted.
    fn reserve(&mut self, found: Match, blocks: BlockCount) -> Result<Lease, Match>;

    /// Adds blocks to a lease, or none if there are fewer. Says whether it did.
    #[must_use]
    fn grow(&mut self, lease: &mut Lease, blocks: BlockCount) -> bool;

    /// Keeps the whole blocks of `tokens`, whose KV the lease's sequence has computed, for others to find;
    /// what the lease found or published before is a prefix of them. The lease pins them from then on.
    ///
    /// Answers under which owner the sequence's KV is to be kept: in [`Layout::Unified`](crate::Layout)
    /// that of the whole blocks, in `Streams` of all `tokens`. `None` if there was nothing new to keep, or
    /// no room for it, or (unified) if not all of it would lie in blocks of the lease's own: what others
    /// published meanwhile stays as it is, and the lease keeps its duplicates to itself.
    fn publish(&mut self, lease: &mut Lease, tokens: &[Token]) -> Option<Owner>;

    /// Notes an answer's length, as far as it was seen, at every kept prefix of the lease's.
    fn note_answer(&mut self, lease: &Lease, tokens: u32, ended: bool);

    /// Takes a lease back.
    fn release(&mut self, lease: Lease);

    /// What owners have given up since the last call, in order. Whatever a call of [`Self::publish`] cut
    /// is to be done before what it returned is kept: the owner may be the same.
    fn drain_cuts(&mut self) -> Vec<Cut>;

    /// Changes of the index of kept blocks since the last call, in order.
    fn drain_index(&mut self) -> Vec<IndexChange>;

    /// Forgets every kept prefix, pinned or not: leases and matches that pin one remain good to be handed
    /// back, and keep their blocks, but such a match brings nothing to its lease any more, and such a lease
    /// publishes nothing any more.
    fn forget(&mut self);

    /// The most recent word on how long answers are under the kept part of a prompt: of its
    /// longest kept prefix with at least `least` answers, else of all prompts.
    fn answers(&self, prompt: &[Token], least: u32) -> &Sketch;

    /// Whether anything is ever kept, so that it is worth waiting for a publication.
    fn keeps_prefixes(&self) -> bool;

    /// Whether a lease may lie in pieces, so that it grows by whatever is free.
    fn lies_in_pieces(&self) -> bool;

    /// How the blocks are used.
    fn usage(&self) -> Usage;

    /// What happened since the start, and what is kept.
    fn counters(&self) -> Counters;

    /// Checks every invariant against all leases and matches that are out.
    ///
    /// # Panics
    /// One is broken; the message names it.
    fn check(&self, leases: &[&Lease], matches: &[&Match]);
}

/// An owner keeps less than before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Whose.
    pub owner: Owner,
    /// How many tokens it still keeps. None: it keeps nothing any more, and may be named anew. Some, in
    /// [`Layout::Unified`](crate::Layout) only: the cells behind them are counted as free, so they have
    /// to be freed (`seq_rm` from there).
    pub tokens: u32,
}

/// A change of the index of kept blocks. A block is named by the hash of it and of all before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IndexChange {
    /// It is kept now.
    Added(BlockHash),
    /// It is not kept any more.
    Removed(BlockHash),
    /// Nothing is kept any more.
    Cleared,
    /// Another answer was noted.
    Answered {
        /// Where the kept prefix ends under which it was; `None`: the lengths of all answers.
        under: Option<BlockHash>,
        /// All that were noted there.
        answers: Box<Sketch>,
    },
}

/// Counted since the start, except where it says now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Tokens of prompts for which a lease was made.
    pub tokens_asked: u64,
    /// Of them, found.
    pub tokens_found: u64,
    /// Blocks copied because their sharer was about to write to them.
    pub copies: u64,
    /// Edges split.
    pub splits: u64,
    /// Prefix nodes evicted.
    pub evictions: u64,
    /// Prefix nodes now.
    pub nodes: u64,
    /// Tokens that they keep now.
    pub tokens_kept: u64,
    /// Owners that keep something now.
    pub owners: u64,
    /// Bytes of host memory that kept states take now.
    pub bytes: u64,
}
