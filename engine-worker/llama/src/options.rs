//! The size of a context, checked.

use std::num::NonZeroU32;

use llama_cpp_2::context::params::LlamaContextParams;

/// Sequences that llama.cpp can tell apart.
const SEQUENCES_MAX: u32 = 256;

/// More kept states than fit into any memory.
const OWNERS_MAX: u32 = 65_536;

/// More rows than any step computes in bearable time.
const ROWS_MAX: u32 = 65_536;

/// Threads, likewise.
const THREADS_MAX: u32 = 512;

/// Rows that are computed at once; a larger batch is computed in turns.
const UBATCH_ROWS: u32 = 512;

/// What the number of cells of a stream, or of the one pool, is a multiple of.
const CELLS_STEP: u32 = 256;

/// The policy that turns flash attention on whatever the backend would choose.
const FLASH_ATTENTION_ON: i32 = 1;

/// The size of a [`Context`](crate::Context).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Sequences at once, from 1 to 256.
    pub slots: u32,
    /// Tokens that each sequence can hold at least.
    pub context_tokens: u32,
    /// Rows of a step at most, up to 65,536.
    pub batch_tokens: u32,
    /// Threads that compute, up to 512.
    pub threads: u32,
    /// Prefixes that can be kept at once, up to 65,536; with [`LayoutKind::Unified`], up to 256 together
    /// with the slots. None are kept of a model that is not [reusable](crate::Facts::reusable).
    pub owners: u32,
    /// Where sequences and kept prefixes lie.
    pub layout: LayoutKind,
}

/// Where sequences and kept prefixes lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutKind {
    /// Each slot has cells of its own, and a kept prefix is a copy in host memory. A row attends to its own
    /// stream only: fast on processors, and the same arithmetic whether a prefix was computed or restored.
    Streams,
    /// Slots and kept prefixes share one pool of cells. Nothing is copied; but every row scans every cell
    /// in use, and its arithmetic depends on where they lie.
    Unified {
        /// Cells in all, one for each token. At least what one sequence can hold.
        cells: u32,
    },
}

/// Why no context can be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ContextError {
    /// An option is out of range.
    #[error("{option} must be from {min} to {max}, not {value}")]
    Range {
        /// Its name in [`Options`].
        option: &'static str,
        /// What was asked for.
        value: u32,
        /// The smallest possible.
        min: u32,
        /// The largest possible.
        max: u32,
    },
    /// llama.cpp makes none, most likely for lack of memory.
    #[error(
        "llama.cpp cannot make a context of {cells} tokens in all ({kv_bytes} bytes of KV); its log says why"
    )]
    Refused {
        /// Tokens of all sequences together.
        cells: u32,
        /// Memory for them.
        kv_bytes: u64,
    },
}

/// What the options come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Cells in all.
    pub(crate) cells: u32,
    /// Tokens that a slot holds at most.
    pub(crate) context_tokens: u32,
    /// Sequences that llama.cpp has to tell apart.
    sequences: u32,
}

impl Options {
    /// Checks every option.
    pub(crate) fn shape(&self) -> Result<Shape, ContextError> {
        within("slots", self.slots, 1, SEQUENCES_MAX)?;
        within("batch_tokens", self.batch_tokens, 1, ROWS_MAX)?;
        within("threads", self.threads, 1, THREADS_MAX)?;
        match self.layout {
            LayoutKind::Streams => self.streams(),
            LayoutKind::Unified { cells } => self.unified(cells),
        }
    }

    fn streams(&self) -> Result<Shape, ContextError> {
        within("owners", self.owners, 0, OWNERS_MAX)?;
        within("context_tokens", self.context_tokens, 1, cells_max(self.slots))?;
        let stream = self.context_tokens.next_multiple_of(CELLS_STEP);
        let cells = stream * self.slots;
        Ok(Shape { cells, context_tokens: stream, sequences: self.slots })
    }

    fn unified(&self, cells: u32) -> Result<Shape, ContextError> {
        within("owners", self.owners, 0, SEQUENCES_MAX - self.slots)?;
        within("cells", cells, 1, cells_max(1))?;
        within("context_tokens", self.context_tokens, 1, cells)?;
        Ok(Shape {
            cells: cells.next_multiple_of(CELLS_STEP),
            context_tokens: self.context_tokens,
            sequences: self.slots + self.owners,
        })
    }

    pub(crate) fn params(&self, shape: Shape) -> LlamaContextParams {
        let threads = self.threads.cast_signed();
        // With fewer rows than sequences llama.cpp ends the process.
        let rows = self.batch_tokens.max(shape.sequences);
        LlamaContextParams::default()
            .with_n_ctx(NonZeroU32::new(shape.cells))
            .with_n_seq_max(shape.sequences)
            .with_kv_unified(matches!(self.layout, LayoutKind::Unified { .. }))
            .with_n_batch(rows)
            .with_n_ubatch(rows.min(UBATCH_ROWS))
            .with_n_threads(threads)
            .with_n_threads_batch(threads)
            .with_flash_attention_policy(FLASH_ATTENTION_ON)
    }
}

fn within(option: &'static str, value: u32, min: u32, max: u32) -> Result<(), ContextError> {
    let fits = (min..=max).contains(&value);
    if fits { Ok(()) } else { Err(ContextError::Range { option, value, min, max }) }
}

/// Positions and row numbers are signed.
fn cells_max(streams: u32) -> u32 {
    i32::MAX.unsigned_abs() / streams / CELLS_STEP * CELLS_STEP
}
