//! Bounds of an engine.

use units::{BlockCount, Span};

use crate::Rules;

/// Bounds of an engine, and the rules by which it is used within them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Sequences that can run at once. At least 1.
    pub slots: u32,
    /// Tokens that prompt and answer of one request have together at most.
    pub context_tokens: u32,
    /// Rows of one backend batch. At least `slots`.
    pub batch_tokens: u32,
    /// Prompt tokens in one step. At least 1, at most `batch_tokens`.
    pub prefill_tokens: u32,
    /// No step with more than one row is planned whose predicted time is above this.
    pub step: Span,
    /// Requests that may wait.
    pub waiting: u32,
    /// Requests in the system that no promiser leased.
    pub unleased: u32,
    /// KV blocks.
    pub kv_blocks: BlockCount,
    /// How the scheduler chooses.
    pub rules: Rules,
}
