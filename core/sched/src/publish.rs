//! What was computed is kept for others.

use crate::{
    Move, Scheduler,
    seq::{Sequence, whole_blocks},
};
use units::BLOCK_TOKENS;

impl Scheduler {
    /// Offers the computed tokens of a running sequence to the cache, if they have a whole block more than
    /// was found or offered before. The engine keeps them at the beginning of the next plan: until then
    /// nobody can have joined the slot.
    pub(crate) fn publish(&mut self, sequence: &mut Sequence) {
        let whole = whole_blocks(sequence.computed);
        let Some(seat) = sequence.seat.as_ref().filter(|seat| seat.offered < whole) else { return };
        let slot = seat.slot;
        let tokens = sequence.computed_tokens();
        let seat = sequence.seat.as_mut().expect("it was just there");
        seat.offered = whole;
        let owner = self.cache.publish(&mut seat.lease, &tokens);
        self.moves.cut(self.cache.drain_cuts());
        if let Some(owner) = owner {
            self.moves.push(Move::Keep { slot, owner, tokens: whole * BLOCK_TOKENS });
        }
    }

    /// Everything that is kept is given up: nobody knows what the engine still has.
    pub(crate) fn forget(&mut self) {
        self.counters.forgotten += 1;
        self.cache.forget();
        // Its word on what owners gave up is about what the engine should have kept.
        self.cache.drain_cuts();
        self.moves.restart();
    }
}
