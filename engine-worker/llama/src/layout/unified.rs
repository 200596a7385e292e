//! One pool of cells: a kept prefix is a sequence too, and shares the cells of the slot that computed it.
//!
//! llama.cpp counts for each cell whose it is, so a cell lives as long as the last sequence that has
//! it. What a sequence adds goes into cells of its own: shared ones are never written to.

use llama_cpp_2::context::LlamaContext;
use sched::Reuse;
use units::{Owner, Slot};

use super::{Layout, LayoutError, sequence};

/// Slots come first, then owners.
#[derive(Debug)]
pub(crate) struct Unified {
    slots: u32,
}

impl Unified {
    /// Nothing is kept.
    pub(crate) fn new(slots: u32) -> Self {
        Self { slots }
    }

    fn of_owner(&self, owner: Owner) -> i32 {
        (self.slots + owner.0).cast_signed()
    }
}

impl Layout for Unified {
    fn keep(
        &mut self,
        llama: &mut LlamaContext<'_>,
        slot: Slot,
        owner: Owner,
        tokens: u32,
    ) -> Result<(), LayoutError> {
        share(llama, self.sequence(slot), self.of_owner(owner), tokens)
    }

    fn cut(
        &mut self,
        llama: &mut LlamaContext<'_>,
        owner: Owner,
        tokens: u32,
    ) -> Result<(), LayoutError> {
        let kept = self.of_owner(owner);
        sequence::cut(llama, kept, tokens)?;
        sequence::holds(llama, kept, tokens, false)
    }

    fn give_up(&mut self, llama: &mut LlamaContext<'_>, owner: Owner) -> Result<(), LayoutError> {
        sequence::cut(llama, self.of_owner(owner), 0)
    }

    fn begin(
        &mut self,
        llama: &mut LlamaContext<'_>,
        slot: Slot,
        reuse: Option<Reuse>,
    ) -> Result<(), LayoutError> {
        let into = self.sequence(slot);
        sequence::cut(llama, into, 0)?;
        let Some(Reuse { owner, tokens }) = reuse else { return Ok(()) };
        share(llama, self.of_owner(owner), into, tokens)
    }

    fn leave(&mut self, llama: &mut LlamaContext<'_>, slot: Slot) -> Result<(), LayoutError> {
        sequence::cut(llama, self.sequence(slot), 0)
    }

    fn settle(&mut self, _: &mut LlamaContext<'_>) {}

    fn sequence(&self, slot: Slot) -> i32 {
        slot.0.cast_signed()
    }

    fn wants_order(&self) -> bool {
        false
    }

    fn kept_bytes(&self) -> u64 {
        0
    }
}

/// Gives the first `tokens` cells of a sequence to an empty one too.
fn share(
    llama: &mut LlamaContext<'_>,
    from: i32,
    into: i32,
    tokens: u32,
) -> Result<(), LayoutError> {
    let copied = llama.kv_cache_seq_cp(from, into, Some(0), Some(tokens));
    copied.expect("no sequence is longer than positions are numbered");
    let shared = sequence::holds(llama, into, tokens, false);
    if shared.is_err() {
        sequence::cut(llama, into, 0)?;
    }
    shared
}
