//! Samples the tokens of one sequence.

use units::Token;

use crate::{Sampling, adjust::Adjustments, draw::Draw};

/// Samples the tokens of one sequence, and remembers what it has sampled as far as it matters.
#[derive(Clone, Debug)]
pub struct Sampler {
    /// Absent when logits are taken as they are, which costs nothing.
    adjustments: Option<Adjustments>,
    draw: Draw,
}

impl Sampler {
    /// A sampler of a sequence that holds `prompt` and, sampled after it, `answer`: it goes on as if it
    /// had sampled `answer` itself.
    ///
    /// Parameters that [`Sampling::validate`] refuses make the result meaningless, but never fail.
    #[must_use]
    pub fn new(sampling: Sampling, prompt: &[Token], answer: &[Token]) -> Self {
        let adjustments = Adjustments::new(&sampling, prompt, answer);
        Self { adjustments, draw: Draw::new(sampling, answer.len()) }
    }

    /// The next token of a sequence whose last row of logits is `logits`, one for each id of the
    /// vocabulary.
    ///
    /// A row without a likeliest finite logit gives its first largest token, an empty one and one in
    /// which everything is forbidden token 0.
    pub fn sample(&mut self, logits: &[f32]) -> Token {
        let Self { adjustments, draw } = self;
        let index = match adjustments {
            Some(adjustments) => draw.choose(adjustments.apply(logits)),
            None => draw.choose(logits.into()),
        };
        let id = u32::try_from(index).expect("vocabularies have fewer than 2^32 tokens");
        if let Some(adjustments) = adjustments {
            adjustments.note(Token(id));
        }
        Token(id)
    }
}

#[cfg(test)]
mod tests;
