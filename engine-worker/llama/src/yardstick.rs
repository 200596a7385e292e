//! The bare loop: what llama.cpp does with nothing around it.
//!
//! The benchmark measures the engine against it, in the same layout, with the same threads. It decodes
//! greedily and knows no requests.

use llama_cpp_2::{
    DecodeError,
    context::{LlamaContext, kv_cache::KvCacheConversionError},
    llama_batch::{BatchAddError, LlamaBatch},
    token::LlamaToken,
};
use sample::{Sampler, Sampling};
use units::Token;

use crate::{ContextError, Model, Options, backend};

/// Why the bare loop cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum YardstickError {
    /// llama.cpp could not decode.
    #[error("llama.cpp failed")]
    Decode(#[from] DecodeError),
    /// More rows than the batch holds.
    #[error("the batch is too small")]
    Batch(#[from] BatchAddError),
    /// llama.cpp could not drop what was drafted.
    #[error("llama.cpp cannot cut a sequence")]
    Cut(#[from] KvCacheConversionError),
}

/// Sequences that decode together, one stream each.
pub struct Yardstick<'model> {
    llama: LlamaContext<'model>,
    batch: LlamaBatch<'static>,
    sampler: Sampler,
    /// The last token of each sequence; all stand at the same position.
    last: Vec<Token>,
    position: i32,
}

impl Model {
    /// Makes a bare loop with a context like [`Model::context`]'s.
    ///
    /// # Errors
    /// As there.
    pub fn yardstick(&self, options: &Options) -> Result<Yardstick<'_>, ContextError> {
        let shape = options.shape()?;
        let made = self.llama().new_context(backend::get(), options.params(shape));
        let llama = made.map_err(|_| ContextError::Refused { cells: shape.cells, kv_bytes: 0 })?;
        let batch = LlamaBatch::new(options.batch_tokens as usize, 1);
        let sampler = Sampler::new(Sampling::GREEDY, &[], &[]);
        Ok(Yardstick { llama, batch, sampler, last: Vec::new(), position: 0 })
    }
}

impl Yardstick<'_> {
    /// Forgets everything and gives `sequences` sequences the same prompt.
    ///
    /// # Errors
    /// llama.cpp failed, or the prompt is longer than a batch.
    pub fn start(&mut self, sequences: u32, prompt: &[Token]) -> Result<(), YardstickError> {
        self.llama.clear_kv_cache();
        self.last.clear();
        for sequence in 0..sequences {
            self.batch.clear();
            for (position, token) in (0..).zip(prompt) {
                let token = LlamaToken(token.0.cast_signed());
                self.batch.add(token, position, &[sequence.cast_signed()], false)?;
            }
            self.llama.decode(&mut self.batch)?;
            self.last.push(prompt.last().copied().unwrap_or(Token(0)));
        }
        self.position = i32::try_from(prompt.len()).unwrap_or(i32::MAX);
        Ok(())
    }

    /// One more token of every sequence.
    ///
    /// # Errors
    /// llama.cpp failed.
    pub fn step(&mut self) -> Result<(), YardstickError> {
        self.verify(0)
    }

    /// One more token of every sequence, which beside it verifies so many drafted ones. They are all wrong:
    /// nothing is left of them.
    ///
    /// # Errors
    /// llama.cpp failed, or the rows do not fit into a batch.
    pub fn verify(&mut self, drafts: u32) -> Result<(), YardstickError> {
        let drafts = drafts.cast_signed();
        self.batch.clear();
        for (sequence, token) in (0..).zip(&self.last) {
            let token = LlamaToken(token.0.cast_signed());
            for ahead in 0..=drafts {
                self.batch.add(token, self.position + ahead, &[sequence], true)?;
            }
        }
        self.llama.decode(&mut self.batch)?;
        let mut row = 0;
        for last in &mut self.last {
            *last = self.sampler.sample(self.llama.get_logits_ith(row));
            for draft in 1..=drafts {
                self.sampler.sample(self.llama.get_logits_ith(row + draft));
            }
            row += 1 + drafts;
        }
        self.position += 1;
        self.forget_drafts(drafts)
    }

    fn forget_drafts(&mut self, drafts: i32) -> Result<(), YardstickError> {
        let end = u32::try_from(self.position).unwrap_or(u32::MAX);
        for sequence in (0..).take(if drafts > 0 { self.last.len() } else { 0 }) {
            self.llama.kv_cache_seq_rm(sequence, Some(end), None)?;
        }
        Ok(())
    }
}
