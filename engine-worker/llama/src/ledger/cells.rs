//! How many cells of one pool are in use when sequences share them.
//!
//! A sequence is made of pieces, each the beginning of a *run*: the cells that one slot has filled since
//! it was joined. Only that slot adds to the run, so what is in use of it is its longest piece.

use units::{Owner, Slot};

/// Which sequences share which cells.
#[derive(Debug)]
pub(super) struct Cells {
    slots: usize,
    /// Of the slots, then of the owners.
    sequences: Vec<Vec<Piece>>,
    /// Runs so far.
    runs: u64,
}

/// The first `tokens` cells of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Piece {
    run: u64,
    tokens: u32,
}

impl Cells {
    /// All cells are free.
    pub(super) fn new(slots: u32, owners: u32) -> Self {
        let (slots, owners) = (slots as usize, owners as usize);
        Self { slots, sequences: vec![Vec::new(); slots + owners], runs: 0 }
    }

    /// Becomes what `other` is, in its own memory.
    pub(super) fn copy_from(&mut self, other: &Self) {
        self.sequences.clone_from(&other.sequences);
        self.runs = other.runs;
    }

    /// The owner shares the first `tokens` cells of the slot.
    pub(super) fn keep(&mut self, slot: Slot, owner: Owner, tokens: u32) {
        let owner = self.slots + owner.0 as usize;
        self.share(slot.0 as usize, owner, tokens);
    }

    /// The owner has its first `tokens` cells only.
    pub(super) fn cut(&mut self, owner: Owner, tokens: u32) {
        let mut left = tokens;
        self.sequences[self.slots + owner.0 as usize].retain_mut(|piece| {
            piece.tokens = piece.tokens.min(left);
            left -= piece.tokens;
            piece.tokens > 0
        });
    }

    /// The slot begins with the first `tokens` cells of the owner, or with none.
    pub(super) fn begin(&mut self, slot: Slot, reuse: Option<(Owner, u32)>) {
        let into = slot.0 as usize;
        self.sequences[into].clear();
        if let Some((owner, tokens)) = reuse {
            self.share(self.slots + owner.0 as usize, into, tokens);
        }
        self.sequences[into].push(Piece { run: self.runs, tokens: 0 });
        self.runs += 1;
    }

    /// The slot fills `tokens` more cells.
    pub(super) fn extend(&mut self, slot: Slot, tokens: u32) {
        let last = self.sequences[slot.0 as usize].last_mut();
        last.expect("a slot that is added to was joined").tokens += tokens;
    }

    /// The slot is empty.
    pub(super) fn clear(&mut self, slot: Slot) {
        self.sequences[slot.0 as usize].clear();
    }

    /// The owner keeps nothing.
    pub(super) fn give_up(&mut self, owner: Owner) {
        self.sequences[self.slots + owner.0 as usize].clear();
    }

    /// Cells in use.
    pub(super) fn used(&self) -> u64 {
        let mut pieces: Vec<Piece> = self.sequences.iter().flatten().copied().collect();
        pieces.sort_unstable();
        let runs = pieces.chunk_by(|one, next| one.run == next.run);
        let longest = |run: &[Piece]| run.last().map_or(0, |piece| u64::from(piece.tokens));
        runs.map(longest).sum()
    }

    fn share(&mut self, from: usize, into: usize, tokens: u32) {
        let mut pieces = std::mem::take(&mut self.sequences[into]);
        pieces.clear();
        let mut left = tokens;
        for piece in &self.sequences[from] {
            let tokens = piece.tokens.min(left);
            if tokens > 0 {
                pieces.push(Piece { tokens, ..*piece });
            }
            left -= tokens;
        }
        self.sequences[into] = pieces;
    }
}
