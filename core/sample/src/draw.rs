//! The draw: a row of logits and one step of a generator to a token.

use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};

use crate::{
    Sampling,
    cut::{self, Cut},
    row::{self, BLOCK},
};

/// 32-bit words of the generator that a draw takes.
const DRAW_WORDS: u128 = 2;

/// Chooses tokens, with one draw of the generator for each unless it is greedy.
///
/// Its buffers grow to what the parameters need with the first tokens and are kept.
#[derive(Clone, Debug)]
pub(crate) struct Draw {
    sampling: Sampling,
    generator: ChaCha8Rng,
    scratch: Vec<f32>,
    blocks: Vec<f64>,
}

impl Draw {
    /// Goes on as if it had drawn `drawn` tokens before.
    pub(crate) fn new(sampling: Sampling, drawn: usize) -> Self {
        let mut generator = ChaCha8Rng::seed_from_u64(sampling.seed);
        generator.set_word_pos(drawn as u128 * DRAW_WORDS);
        Self { sampling, generator, scratch: Vec::new(), blocks: Vec::new() }
    }

    /// The index of the next token.
    pub(crate) fn choose(&mut self, logits: &[f32]) -> usize {
        if self.sampling.is_greedy() { row::argmax(logits) } else { self.draw(logits) }
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
pub(crate) fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
}
