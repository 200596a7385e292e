//! What the engine has to do with kept prefixes and left slots, and what it keeps.

use std::collections::BTreeSet;

use kv::Cut;
use units::{Owner, Slot};

use crate::Move;

/// Moves that wait for the next plan, in the order in which they arose.
#[derive(Debug)]
pub(crate) struct Moves {
    pending: Vec<Move>,
    /// Who keeps something in the engine.
    kept: BTreeSet<Owner>,
}

impl Moves {
    /// Nothing is kept, and whatever the slots hold is nobody's: whoever measured the engine may have left
    /// something.
    pub(crate) fn new(slots: u32) -> Self {
        let pending = (0..slots).map(|slot| Move::Leave { slot: Slot(slot) }).collect();
        Self { pending, kept: BTreeSet::new() }
    }

    pub(crate) fn push(&mut self, made: Move) {
        self.pending.push(made);
    }

    /// Owners keep less than before. What the engine was not told to keep yet, it need not keep at all.
    pub(crate) fn cut(&mut self, cuts: Vec<Cut>) {
        for Cut { owner, tokens } in cuts {
            let keeps = |made: &Move| matches!(made, Move::Keep { owner: of, .. } if *of == owner);
            match (self.pending.iter().position(keeps), tokens) {
                (Some(at), 0) => drop(self.pending.remove(at)),
                (Some(at), less) => {
                    if let Move::Keep { tokens, .. } = &mut self.pending[at] {
                        *tokens = less;
                    }
                }
                (None, 0) => self.pending.push(Move::Drop { owner }),
                (None, tokens) => self.pending.push(Move::Cut { owner, tokens }),
            }
        }
    }

    /// All that wait, for a plan.
    pub(crate) fn take(&mut self) -> Vec<Move> {
        std::mem::take(&mut self.pending)
    }

    /// The engine has done `moves`, except that it could not keep what `lost` names.
    pub(crate) fn done(&mut self, moves: &[Move], lost: &[Owner]) {
        for made in moves {
            match *made {
                Move::Keep { owner, .. } => self.kept.insert(owner),
                Move::Drop { owner } => self.kept.remove(&owner),
                Move::Cut { .. } | Move::Leave { .. } => continue,
            };
        }
        self.kept.retain(|owner| !lost.contains(owner));
    }

    /// Nothing is to be kept any more: what the engine keeps goes, and of what waited only slots are left.
    pub(crate) fn restart(&mut self) {
        self.pending.retain(|made| matches!(made, Move::Leave { .. }));
        self.pending.extend(self.kept.iter().map(|&owner| Move::Drop { owner }));
    }

    /// How many prefixes the engine will keep once the moves that wait are done.
    pub(crate) fn keeping(&self) -> usize {
        let mut after = Self { pending: Vec::new(), kept: self.kept.clone() };
        after.done(&self.pending, &[]);
        after.kept.len()
    }
}
