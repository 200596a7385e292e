//! What both layouts do with a sequence.

use super::LayoutError;
use llama_cpp_2::context::LlamaContext;

/// Leaves the sequence its first `tokens` tokens.
pub(super) fn cut(
    llama: &mut LlamaContext<'_>,
    sequence: i32,
    tokens: u32,
) -> Result<(), LayoutError> {
    let removed = llama.kv_cache_seq_rm(sequence, Some(tokens), None);
    removed.map_err(|_| LayoutError::Cut { sequence, tokens })
}

/// Makes sure that the sequence holds its first `tokens` tokens, and whether it may hold more.
pub(super) fn holds(
    llama: &LlamaContext<'_>,
    sequence: i32,
    tokens: u32,
    or_more: bool,
) -> Result<(), LayoutError> {
    let first = llama.kv_cache_seq_pos_min(sequence);
    let last = llama.kv_cache_seq_pos_max(sequence);
    let held = i64::from(last) + 1;
    let enough = held == i64::from(tokens) || (or_more && held > i64::from(tokens));
    let whole = first == 0 && enough;
    if whole { Ok(()) } else { Err(LayoutError::Hole { sequence, first, last, tokens }) }
}
