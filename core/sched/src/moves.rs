//! What the engine has to do with kept prefixes, and what it keeps.

use std::collections::BTreeSet;

use kv::Cut;
use units::Owner;

use crate::Move;

/// Moves that wait for the next plan, in the order in which they arose.
#[derive(Debug, Default)]
pub(crate) struct Moves {
    pending: Vec<Move>,
    /// Who keeps something in the engine.
    kept: BTreeSet<Owner>,
}

impl Moves {
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
                Move::Cut { .. } => continue,
            };
        }
        self.kept.retain(|owner| !lost.contains(owner));
    }

    /// Nothing is to be kept any more: whatever waited is void, and what the engine keeps goes.
    pub(crate) fn restart(&mut self) {
        self.pending = self.kept.iter().map(|&owner| Move::Drop { owner }).collect();
    }

    /// How many prefixes the engine will keep once the moves that wait are done.
    pub(crate) fn keeping(&self) -> usize {
        let mut after = Self { pending: Vec::new(), kept: self.kept.clone() };
        after.done(&self.pending, &[]);
        after.kept.len()
    }
}
