//! Whether a model's KV can be kept and reused.

use std::num::NonZeroU32;

use llama_cpp_2::{
    context::{params::LlamaContextParams, session::LlamaStateSeqFlags},
    model::LlamaModel,
};

use crate::backend;

/// Whether what is kept of a sequence can be cut at any token and gone on with, exactly.
///
/// Not so where layers attend to a sliding window: the memory of such layers gives away cells that the
/// sequence's last token does not see, and leaves them out of a saved state, though a shorter prefix
/// needs them. llama.cpp does not say that a model has such layers, and the file does not always; but
/// what it saves as the *partial* state differs from the whole if and only if the memory has parts that
/// are not plain. So a context of the least size is made and asked.
///
/// A model of which no context can be made is not reusable.
pub(crate) fn reusable(llama: &LlamaModel) -> bool {
    let least = LlamaContextParams::default()
        .with_n_ctx(NonZeroU32::new(1))
        .with_n_batch(1)
        .with_n_ubatch(1)
        .with_n_seq_max(1)
        .with_swa_full(false);
    let Ok(context) = llama.new_context(backend::get(), least) else { return false };
    let size = |flags| context.state_seq_get_size_ext(0, flags);
    size(LlamaStateSeqFlags::empty()) == size(LlamaStateSeqFlags::PARTIAL_ONLY)
}

#[cfg(test)]
mod tests;
