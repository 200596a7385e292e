//! What the mock says.

use std::ops::Range;

use sample::{Logprob, Logprobs};
use units::Token;

/// What the mock answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answers {
    /// Tokens that answers are made of. Not empty.
    pub words: Range<u32>,
    /// The end-of-turn token.
    pub end: Token,
    /// Tokens of every answer, the end included. 0: answers never end by themselves.
    pub tokens: u32,
}

impl Answers {
    /// The token that follows those with this digest, of which the answer has `sampled` already; and
    /// whether the answer ends with it.
    pub(super) fn next(&self, digest: u64, sampled: u32) -> (Token, bool) {
        let stop = self.tokens > 0 && sampled + 1 >= self.tokens;
        (if stop { self.end } else { self.word(mix(digest)) }, stop)
    }

    fn word(&self, number: u64) -> Token {
        let choices = u64::from(self.words.end - self.words.start);
        let choice = u32::try_from(number % choices).expect("below a 32-bit bound");
        Token(self.words.start + choice)
    }

    /// A falling series of probabilities, which sum to at most 1: now and then another word is likelier than
    /// the one that is taken, as it is with real models.
    pub(super) fn logprobs(&self, digest: u64, taken: Token, count: u32) -> Logprobs {
        let rank = usize::from(digest.is_multiple_of(4));
        let share = 0.3 + (digest % 64) as f32 / 128.0;
        let logprob = |rank: usize| share.ln() + rank as f32 * (1.0 - share).ln();
        let others = (1..u64::from(count) + 1).map(|step| self.word(mix(digest) + step));
        let mut order: Vec<Token> = others.filter(|&other| other != taken).collect();
        order.sort_unstable();
        order.dedup();
        order.insert(rank.min(order.len()), taken);
        order.truncate(count as usize);
        let top = order.into_iter().enumerate();
        let top = top.map(|(rank, token)| Logprob { token, logprob: logprob(rank) });
        Logprobs { chosen: logprob(rank), top: top.collect() }
    }
}

/// The digest of tokens with the digest `before` and one more.
pub(super) fn then(before: u64, token: Token) -> u64 {
    mix(before ^ u64::from(token.0))
}

/// SplitMix64's finaliser: every input bit moves every output bit.
fn mix(value: u64) -> u64 {
    let mut value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}
