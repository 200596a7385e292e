//! Draws the tokens of one sequence.

use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};
use units::Token;

use crate::{
    Sampling,
    cut::{self, Cut},
    row::{self, BLOCK},
};

/// 32-bit words of the generator that a draw takes.
const DRAW_WORDS: u128 = 2;

/// Draws the tokens of one sequence, one draw of the generator for each.
///
/// Its buffers grow to what the parameters need with the first tokens and are kept.
#[derive(Clone, Debug)]
pub struct Sampler {
    sampling: Sampling,
    generator: ChaCha8Rng,
    scratch: Vec<f32>,
    blocks: Vec<f64>,
}

impl Sampler {
    /// A sampler that has drawn `drawn` tokens before: it goes on as if it had drawn them itself.
    ///
    /// Parameters that [`Sampling::validate`] refuses make the draw meaningless, but never fail.
    #[must_use]
    pub fn new(sampling: Sampling, drawn: u32) -> Self {
        let mut generator = ChaCha8Rng::seed_from_u64(sampling.seed);
        generator.set_word_pos(u128::from(drawn) * DRAW_WORDS);
        Self { sampling, generator, scratch: Vec::new(), blocks: Vec::new() }
    }

    /// The next token of a sequence whose last row of logits is `logits`, one for each id of the
    /// vocabulary.
    ///
    /// A row without a likeliest finite logit gives its first largest token, an empty one token 0.
    pub fn sample(&mut self, logits: &[f32]) -> Token {
        let index = if self.sampling.is_greedy() { row::argmax(logits) } else { self.draw(logits) };
        Token(u32::try_from(index).expect("vocabularies have fewer than 2^32 tokens"))
    }

    fn draw(&mut self, logits: &[f32]) -> usize {
        // Drawn first, whatever the row holds: the number of draws is the number of tokens.
        let share = unit(self.generator.next_u64());
        let top = row::max(logits);
        if !top.is_finite() {
            return row::argmax(logits);
        }
        let cut = cut::find(logits, top, &self.sampling, &mut self.scratch);
        let temperature = self.sampling.temperature;
        let weigh = |index, logit| {
            if cut.keeps(index, logit) { row::exp((logit - top) / temperature) } else { 0.0 }
        };
        self.pick(logits, cut, share, weigh)
    }

    /// The first token at which the running sum of weights, in order of ids, passes `share` of all.
    fn pick(
        &mut self,
        logits: &[f32],
        cut: Cut,
        share: f64,
        weigh: impl Fn(usize, f32) -> f32,
    ) -> usize {
        self.blocks.clear();
        self.blocks.extend(logits.chunks(BLOCK).enumerate().map(|(at, block)| {
            // Most blocks keep nothing once there is a filter.
            let kept = row::max(block) >= cut.logit;
            if kept {
                row::sum(block, |offset, logit| weigh(at * BLOCK + offset, logit))
            } else {
                0.0
            }
        }));
        let mut left = share * self.blocks.iter().sum::<f64>();
        let passed = self.blocks.iter().position(|&mass| {
            let here = left < mass;
            left -= if here { 0.0 } else { mass };
            here
        });
        let Some(block) = passed else { return row::argmax(logits) };
        let start = block * BLOCK;
        let mut picked = start;
        for (index, &logit) in logits.iter().enumerate().skip(start).take(BLOCK) {
            let weight = f64::from(weigh(index, logit));
            if weight > 0.0 {
                // Kept even if rounding leaves something over at the end of the block.
                picked = index;
                if left < weight {
                    break;
                }
                left -= weight;
            }
        }
        picked
    }
}

/// A number from 0 to below 1, from the 53 highest bits.
fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
}

#[cfg(test)]
mod tests;
