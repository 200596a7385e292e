//! A stream of cells for each sequence; prefixes are kept as copies in host memory.
//!
//! A copy is of the slot's whole sequence, whatever part of it was asked for: llama.cpp writes nothing
//! less. So it is cut after it is restored. llama.cpp allocates a new buffer for each copy, and the safe
//! interface has no call that takes one back.

use llama_cpp_2::context::{
    LlamaContext,
    session::{LlamaStateSeqFlags, SeqState},
};
use sched::Reuse;
use units::{Owner, Slot};

use super::{
    Layout, LayoutError,
    places::{Places, Relocation},
    sequence,
};

/// Who has which stream, and the states that are kept.
#[derive(Debug)]
pub(crate) struct Streams {
    places: Places,
    /// By owner.
    states: Vec<Option<SeqState>>,
    bytes: u64,
}

impl Streams {
    /// Nothing is kept.
    pub(crate) fn new(slots: u32, owners: u32) -> Self {
        Self { places: Places::new(slots), states: vec![None; owners as usize], bytes: 0 }
    }

    fn state(&self, owner: Owner) -> Result<&SeqState, LayoutError> {
        let state = self.states.get(owner.0 as usize).and_then(Option::as_ref);
        state.ok_or(LayoutError::Missing(owner))
    }

    /// Moves a sequence to a stream that nobody has. If that fails, it is where it was.
    fn relocate(
        &mut self,
        llama: &mut LlamaContext<'_>,
        wanted: Relocation,
    ) -> Result<(), LayoutError> {
        let (from, into) = (wanted.from.cast_signed(), wanted.into.cast_signed());
        let failed = LayoutError::Move { from, into };
        let state = llama.state_seq_get(from, LlamaStateSeqFlags::empty()).map_err(|_| failed)?;
        sequence::cut(llama, into, 0)?;
        let moved = llama.state_seq_set(&state, into).is_ok();
        if !moved || llama.kv_cache_seq_pos_max(into) != llama.kv_cache_seq_pos_max(from) {
            sequence::cut(llama, into, 0)?;
            return Err(failed);
        }
        self.places.relocate(wanted);
        sequence::cut(llama, from, 0)
    }
}

impl Layout for Streams {
    fn keep(
        &mut self,
        llama: &mut LlamaContext<'_>,
        slot: Slot,
        owner: Owner,
        tokens: u32,
    ) -> Result<(), LayoutError> {
        let from = self.sequence(slot);
        sequence::holds(llama, from, tokens, true)?;
        let state = llama.state_seq_get(from, LlamaStateSeqFlags::empty());
        let state = state.map_err(|_| LayoutError::Save(slot))?;
        self.bytes += state.byte_len() as u64;
        self.states[owner.0 as usize] = Some(state);
        Ok(())
    }

    /// A copy stays whole, and is cut when it is restored.
    fn cut(&mut self, _: &mut LlamaContext<'_>, owner: Owner, _: u32) -> Result<(), LayoutError> {
        self.state(owner).map(|_| ())
    }

    fn give_up(&mut self, _: &mut LlamaContext<'_>, owner: Owner) -> Result<(), LayoutError> {
        if let Some(state) = self.states[owner.0 as usize].take() {
            self.bytes -= state.byte_len() as u64;
        }
        Ok(())
    }

    fn begin(
        &mut self,
        llama: &mut LlamaContext<'_>,
        slot: Slot,
        reuse: Option<Reuse>,
    ) -> Result<(), LayoutError> {
        let into = self.places.take(slot).cast_signed();
        // First, so that the restored cells lie where computed ones would.
        sequence::cut(llama, into, 0)?;
        let Some(Reuse { owner, tokens }) = reuse else { return Ok(()) };
        let restored = llama.state_seq_set(self.state(owner)?, into);
        restored.map_err(|_| LayoutError::Restore(owner))?;
        sequence::cut(llama, into, tokens)?;
        sequence::holds(llama, into, tokens, false)
    }

    fn leave(&mut self, llama: &mut LlamaContext<'_>, slot: Slot) -> Result<(), LayoutError> {
        let Some(stream) = self.places.of(slot) else { return Ok(()) };
        self.places.leave(slot);
        sequence::cut(llama, stream.cast_signed(), 0)
    }

    fn settle(&mut self, llama: &mut LlamaContext<'_>) {
        while let Some(wanted) = self.places.next_relocation() {
            if let Err(error) = self.relocate(llama, wanted) {
                tracing::warn!(%error, "steps take longer than they have to");
                return;
            }
        }
    }

    fn sequence(&self, slot: Slot) -> i32 {
        self.places.of(slot).expect("the ledger has seen its sequence begin").cast_signed()
    }

    fn wants_order(&self) -> bool {
        true
    }

    fn kept_bytes(&self) -> u64 {
        self.bytes
    }
}
