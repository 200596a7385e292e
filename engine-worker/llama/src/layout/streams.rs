//! A stream of cells for each slot; prefixes are kept as copies in host memory.
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

use super::{Layout, LayoutError, sequence};

/// The states that are kept.
#[derive(Debug)]
pub(crate) struct Streams {
    /// By owner.
    states: Vec<Option<SeqState>>,
    bytes: u64,
}

impl Streams {
    /// Nothing is kept.
    pub(crate) fn new(owners: u32) -> Self {
        Self { states: vec![None; owners as usize], bytes: 0 }
    }

    fn state(&self, owner: Owner) -> Result<&SeqState, LayoutError> {
        let state = self.states.get(owner.0 as usize).and_then(Option::as_ref);
        state.ok_or(LayoutError::Missing(owner))
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
        let from = sequence::of_slot(slot);
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
        let into = sequence::of_slot(slot);
        // First, so that the restored cells lie where computed ones would.
        sequence::cut(llama, into, 0)?;
        let Some(Reuse { owner, tokens }) = reuse else { return Ok(()) };
        let restored = llama.state_seq_set(self.state(owner)?, into);
        restored.map_err(|_| LayoutError::Restore(owner))?;
        sequence::cut(llama, into, tokens)?;
        sequence::holds(llama, into, tokens, false)
    }

    fn kept_bytes(&self) -> u64 {
        self.bytes
    }
}
