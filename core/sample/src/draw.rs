//! The draw: a row of logits and one step of a generator to a token.

use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};

use crate::{
    Sampling,
    cut::{self, Cut},
    row::{self, Peaks, Row},
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
    tops: Vec<f32>,
    blocks: Vec<f64>,
}

impl Draw {
    /// Goes on as if it had drawn `drawn` tokens before.
    pub(crate) fn new(sampling: Sampling, drawn: usize) -> Self {
        let mut generator = ChaCha8Rng::seed_from_u64(sampling.seed);
        generator.set_word_pos(drawn as u128 * DRAW_WORDS);
        Self { sampling, generator, scratch: Vec::new(), tops: Vec::new(), blocks: Vec::new() }
    }

    /// The index of the next token.
    pub(crate) fn choose(&mut self, row: Row<'_>) -> usize {
        if self.sampling.is_greedy() { row.argmax() } else { self.draw(row) }
    }

    fn draw(&mut self, row: Row<'_>) -> usize {
        // Drawn first, whatever the row holds: the number of draws is the number of tokens.
        let share = unit(self.generator.next_u64());
        let Self { sampling, scratch, tops, blocks, .. } = self;
        let peaks = Peaks::find(row, tops);
        let top = peaks.top();
        if !top.is_finite() {
            return row.argmax();
        }
        let cut = cut::find(peaks, top, sampling, scratch);
        let temperature = sampling.temperature;
        let weigh = |logit: f32| row::exp((logit - top) / temperature);
        if cut == Cut::NOTHING {
            // Without a look at the index the loop is several times as fast; what it says is the same.
            return pick(peaks, cut, share, blocks, |_, logit| weigh(logit));
        }
        let kept = |index, logit| if cut.keeps(index, logit) { weigh(logit) } else { 0.0 };
        pick(peaks, cut, share, blocks, kept)
    }
}

/// The first token at which the running sum of weights, in order of ids, passes `share` of all. `masses` is
/// any buffer.
fn pick(
    peaks: Peaks<'_>,
    cut: Cut,
    share: f64,
    masses: &mut Vec<f64>,
    weigh: impl Fn(usize, f32) -> f32,
) -> usize {
    // Most blocks keep nothing once there is a filter.
    let kept = || peaks.blocks(|top| top >= cut.logit);
    masses.clear();
    masses.extend(
        kept().map(|(start, block)| row::sum(block, |offset, logit| weigh(start + offset, logit))),
    );
    let mut left = share * masses.iter().sum::<f64>();
    let passed = masses.iter().zip(kept()).find(|&(&mass, _)| {
        let here = left < mass;
        left -= if here { 0.0 } else { mass };
        here
    });
    let Some((_, (start, block))) = passed else { return peaks.row.argmax() };
    let mut picked = start;
    for (index, &logit) in (start..).zip(block) {
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

/// A number from 0 to below 1, from the 53 highest bits.
pub(crate) fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
}
