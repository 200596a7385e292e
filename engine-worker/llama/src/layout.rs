//! Where sequences and kept prefixes lie in a context.
//!
//! What is kept, and under which owner, is the
//! [ledger](crate::ledger)'s to know: a layout is only asked for what the ledger has found right. After
//! every move it compares what llama.cpp then holds with what it should, because a sequence with a
//! hole in it would not fail but answer wrongly.

use llama_cpp_2::context::LlamaContext;
use sched::{EngineError, Reuse};
use units::{Owner, Slot};

mod places;
mod sequence;
mod streams;
mod unified;

pub(crate) use streams::Streams;
pub(crate) use unified::Unified;

/// Keeps prefixes of slots, and begins sequences with them.
pub(crate) trait Layout: Send {
    /// Keeps the first `tokens` tokens of the slot, which may hold more, under an owner that keeps nothing.
    ///
    /// # Errors
    /// Nothing is kept. The slot is as it was.
    fn keep(
        &mut self,
        llama: &mut LlamaContext<'_>,
        slot: Slot,
        owner: Owner,
        tokens: u32,
    ) -> Result<(), LayoutError>;

    /// Leaves the owner its first `tokens` tokens, of more.
    ///
    /// # Errors
    /// Nobody knows what the owner keeps.
    fn cut(
        &mut self,
        llama: &mut LlamaContext<'_>,
        owner: Owner,
        tokens: u32,
    ) -> Result<(), LayoutError>;

    /// Gives up what the owner keeps, if anything.
    ///
    /// # Errors
    /// llama.cpp refused, which it does not for a whole sequence.
    fn give_up(&mut self, llama: &mut LlamaContext<'_>, owner: Owner) -> Result<(), LayoutError>;

    /// Gives the slot a sequence: an empty one, or the beginning of a kept prefix and nothing else.
    ///
    /// # Errors
    /// Nobody knows what the slot holds.
    fn begin(
        &mut self,
        llama: &mut LlamaContext<'_>,
        slot: Slot,
        reuse: Option<Reuse>,
    ) -> Result<(), LayoutError>;

    /// Takes the slot's sequence away, if it has one.
    ///
    /// # Errors
    /// llama.cpp refused, which it does not for a whole sequence.
    fn leave(&mut self, llama: &mut LlamaContext<'_>, slot: Slot) -> Result<(), LayoutError>;

    /// All of a step's sequences have begun: puts them where they are computed best. Who cannot be moved
    /// stays where he is.
    fn settle(&mut self, llama: &mut LlamaContext<'_>);

    /// The number that llama.cpp knows the slot's sequence by.
    fn sequence(&self, slot: Slot) -> i32;

    /// Whether llama.cpp wants the rows of a batch in the order of their sequences.
    fn wants_order(&self) -> bool;

    /// Bytes of host memory that kept prefixes take, beside the context's own cells.
    fn kept_bytes(&self) -> u64;
}

/// Why a prefix could not be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LayoutError {
    /// llama.cpp does not remove tokens from the end of a sequence.
    #[error("sequence {sequence} cannot be cut to {tokens} tokens")]
    Cut { sequence: i32, tokens: u32 },
    /// llama.cpp does not write a state.
    #[error("the state of slot {} cannot be saved", .0.0)]
    Save(Slot),
    /// llama.cpp does not read a state.
    #[error("the state of owner {} cannot be restored", .0.0)]
    Restore(Owner),
    /// The state is gone; keeping it has failed.
    #[error("owner {} keeps no state", .0.0)]
    Missing(Owner),
    /// llama.cpp does not write or read a whole sequence.
    #[error("sequence {from} cannot be moved to {into}")]
    Move { from: i32, into: i32 },
    /// Some of the tokens are not there.
    #[error("sequence {sequence} holds positions {first} to {last}, not {tokens} tokens")]
    Hole { sequence: i32, first: i32, last: i32, tokens: u32 },
}

impl From<LayoutError> for EngineError {
    fn from(error: LayoutError) -> Self {
        Self::Backend(error.to_string())
    }
}
