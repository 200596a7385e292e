//! How likely a model holds a given text: the measure by which two files are compared.

use llama_cpp_2::{
    DecodeError,
    context::LlamaContext,
    llama_batch::{BatchAddError, LlamaBatch},
    token::LlamaToken,
};
use sample::Logprobs;
use units::Token;

use crate::{ContextError, LayoutKind, Model, Options, backend};

/// What a model says of a token of a given text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scored {
    /// The natural logarithm of the probability that it gave to the token.
    pub logprob: f32,
    /// The token that it held for the likeliest; none if its logits say nothing.
    pub top: Option<Token>,
}

/// Why a text cannot be scored.
#[derive(Debug, thiserror::Error)]
pub enum EvaluateError {
    /// llama.cpp could not decode.
    #[error("llama.cpp failed")]
    Decode(#[from] DecodeError),
    /// More tokens than the evaluator was made for.
    #[error("the window is too long")]
    Batch(#[from] BatchAddError),
}

/// Scores windows of a text, each by itself.
pub struct Evaluator<'model> {
    llama: LlamaContext<'model>,
    batch: LlamaBatch<'static>,
}

impl Model {
    /// Makes an evaluator of windows of up to `window` tokens, from 1 to 65,536.
    ///
    /// # Errors
    /// A number is out of range, or there is not enough memory.
    pub fn evaluator(&self, window: u32, threads: u32) -> Result<Evaluator<'_>, ContextError> {
        let options = Options {
            slots: 1,
            context_tokens: window,
            batch_tokens: window,
            threads,
            owners: 0,
            layout: LayoutKind::Streams,
        };
        let shape = options.shape()?;
        let making = self.making_context();
        let made = self.llama().new_context(backend::get(), options.params(shape));
        drop(making);
        let kv_bytes = self.facts().kv_bytes_per_token.saturating_mul(shape.cells.into());
        let llama = made.map_err(|_| ContextError::Refused { cells: shape.cells, kv_bytes })?;
        Ok(Evaluator { llama, batch: LlamaBatch::new(window as usize, 1) })
    }
}

impl Evaluator<'_> {
    /// What the model says of each token of the window from the one at `first` on, when it is given all those
    /// before it. The token at 0 has none before it and is never scored.
    ///
    /// # Errors
    /// llama.cpp failed, or the window is longer than the evaluator was made for.
    pub fn score(&mut self, window: &[Token], first: usize) -> Result<Vec<Scored>, EvaluateError> {
        self.llama.clear_kv_cache();
        self.batch.clear();
        let first = first.max(1);
        for (position, (at, token)) in (0..).zip(window.iter().enumerate()) {
            let wanted = at + 1 >= first && at + 1 < window.len();
            let token = LlamaToken(token.0.cast_signed());
            self.batch.add(token, position, &[0], wanted)?;
        }
        if window.len() <= first {
            return Ok(Vec::new());
        }
        self.llama.decode(&mut self.batch)?;
        // A row's logits are about the token after it.
        let scored = window.iter().zip(-1_i32..).skip(first).map(|(&token, row)| {
            let said = Logprobs::of(self.llama.get_logits_ith(row), token, 1);
            Scored { logprob: said.chosen, top: said.top.first().map(|it| it.token) }
        });
        Ok(scored.collect())
    }
}
