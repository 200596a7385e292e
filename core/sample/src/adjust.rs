//! What happens to logits before anything looks at them: bias, then penalties.
//!
//! Few tokens are concerned, so only the blocks that they lie in are copied into a buffer that is kept,
//! and changed there. What is held is a function of prompt and answer: a preempted sequence that joins
//! again counts the same.

use units::Token;

use crate::{
    Sampling,
    params::Bias,
    row::{BLOCK, Row},
};

/// The adjustments of one sequence, with what they have to remember of it.
#[derive(Clone, Debug)]
pub(crate) struct Adjustments {
    /// By rising tokens.
    bias: Vec<Bias>,
    presence: f32,
    frequency: f32,
    repeat: f32,
    /// How often the answer holds a token, by rising tokens; with a repeat penalty the prompt's tokens are
    /// here too, with 0. Empty without penalties.
    held: Vec<(Token, u32)>,
    penalises: bool,
    /// Numbers of the blocks in which all of them lie, rising.
    touched: Vec<usize>,
    copies: Vec<f32>,
}

impl Adjustments {
    /// What `sampling` asks for after `prompt` and `answer`; `None` if it leaves logits alone.
    pub(crate) fn new(sampling: &Sampling, prompt: &[Token], answer: &[Token]) -> Option<Self> {
        let penalises = sampling.penalises();
        if !penalises && sampling.logit_bias.is_empty() {
            return None;
        }
        let mut bias = sampling.logit_bias.clone();
        bias.sort_by_key(|entry| entry.token);
        let repeated = if sampling.repeats() { prompt } else { &[] };
        let mut held: Vec<(Token, u32)> = repeated.iter().map(|&token| (token, 0)).collect();
        held.sort_unstable();
        held.dedup();
        let tokens = bias.iter().map(|entry| entry.token).chain(held.iter().map(|it| it.0));
        let mut touched: Vec<usize> = tokens.map(block_of).collect();
        touched.sort_unstable();
        touched.dedup();
        let mut adjustments = Self {
            bias,
            presence: sampling.presence_penalty,
            frequency: sampling.frequency_penalty,
            repeat: sampling.repeat_penalty,
            held,
            penalises,
            touched,
            copies: Vec::new(),
        };
        answer.iter().for_each(|&token| adjustments.note(token));
        Some(adjustments)
    }

    /// The answer holds one more token.
    pub(crate) fn note(&mut self, token: Token) {
        if !self.penalises {
            return;
        }
        match self.held.binary_search_by_key(&token, |it| it.0) {
            Ok(at) => self.held[at].1 += 1,
            Err(at) => self.held.insert(at, (token, 1)),
        }
        if let Err(at) = self.touched.binary_search(&block_of(token)) {
            self.touched.insert(at, block_of(token));
        }
    }

    /// The adjusted row.
    pub(crate) fn apply<'a>(&'a mut self, logits: &'a [f32]) -> Row<'a> {
        let Self { bias, held, touched, copies, .. } = self;
        copies.clear();
        // Ids that the row does not have lie behind its last block.
        let there = touched.partition_point(|&block| block * BLOCK < logits.len());
        let touched = &touched[..there];
        for &block in touched {
            let start = block * BLOCK;
            copies.extend_from_slice(&logits[start..logits.len().min(start + BLOCK)]);
        }
        let mut place = places(touched);
        for entry in bias.iter() {
            if let Some(logit) = place(entry.token).and_then(|at| copies.get_mut(at)) {
                *logit = if entry.forbids() { f32::NEG_INFINITY } else { *logit + entry.bias };
            }
        }
        let (presence, frequency, repeat) = (self.presence, self.frequency, self.repeat);
        let mut place = places(touched);
        for &(token, count) in held.iter() {
            let Some(logit) = place(token).and_then(|at| copies.get_mut(at)) else { continue };
            *logit = if *logit > 0.0 { *logit / repeat } else { *logit * repeat };
            if count > 0 {
                *logit -= presence + frequency * count as f32;
            }
        }
        Row::patched(logits, touched, copies)
    }
}

fn block_of(token: Token) -> usize {
    token.0 as usize / BLOCK
}

/// Where tokens, asked for by rising ids, lie in the copies of these blocks. The last block may be short, so
/// that a token of it that the row does not have lies behind the end.
fn places(touched: &[usize]) -> impl FnMut(Token) -> Option<usize> {
    let mut at = 0;
    move |token| {
        while *touched.get(at)? < block_of(token) {
            at += 1;
        }
        (touched[at] == block_of(token)).then_some(at * BLOCK + token.0 as usize % BLOCK)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PROMPT: [Token; 2] = [Token(0), Token(1)];
    const ANSWER: [Token; 3] = [Token(1), Token(2), Token(2)];
    const ROW: [f32; 5] = [2.0, -2.0, 4.0, 1.0, f32::NAN];

    fn adjusted(sampling: &Sampling) -> Vec<f32> {
        let adjustments = Adjustments::new(sampling, &PROMPT, &ANSWER);
        adjustments.expect("it adjusts").apply(&ROW).values().take(4).collect()
    }

    #[test]
    fn nothing_asked_for_is_nothing_done() {
        assert!(Adjustments::new(&Sampling::GREEDY, &PROMPT, &ANSWER).is_none());
    }

    #[test]
    fn the_answer_is_penalised_by_presence_and_count() {
        let presence = Sampling { presence_penalty: 0.5, ..Sampling::GREEDY };
        assert_eq!(adjusted(&presence), [2.0, -2.5, 3.5, 1.0]);
        let frequency = Sampling { frequency_penalty: 0.5, ..Sampling::GREEDY };
        assert_eq!(adjusted(&frequency), [2.0, -2.5, 3.0, 1.0]);
        let reward = Sampling { frequency_penalty: -2.0, ..Sampling::GREEDY };
        assert_eq!(adjusted(&reward), [2.0, 0.0, 8.0, 1.0]);
    }

    #[test]
    fn prompt_and_answer_are_penalised_for_repeating() {
        let repeat = Sampling { repeat_penalty: 2.0, ..Sampling::GREEDY };
        assert_eq!(adjusted(&repeat), [1.0, -4.0, 2.0, 1.0]);
        let both = Sampling { frequency_penalty: 1.0, ..repeat };
        assert_eq!(adjusted(&both), [1.0, -5.0, 0.0, 1.0]);
    }

    #[test]
    fn the_bias_comes_first() {
        let bias = |token, bias| Bias { token: Token(token), bias };
        let logit_bias = vec![bias(0, -4.0), bias(3, 5.5), bias(2, -100.0), bias(900, 1.0)];
        let biased = Sampling { logit_bias, ..Sampling::GREEDY };
        assert_eq!(adjusted(&biased), [-2.0, -2.0, f32::NEG_INFINITY, 6.5]);
        let both = Sampling { repeat_penalty: 0.5, presence_penalty: 1.0, ..biased };
        assert_eq!(adjusted(&both), [-1.0, -2.0, f32::NEG_INFINITY, 6.5]);
    }

    #[test]
    fn rows_may_be_odd() {
        let sampling = Sampling { repeat_penalty: f32::MIN_POSITIVE, ..Sampling::GREEDY };
        let mut adjustments = Adjustments::new(&sampling, &PROMPT, &ANSWER).expect("it adjusts");
        assert_eq!(adjustments.apply(&[]).len(), 0);
        let adjusted: Vec<f32> = adjustments.apply(&[1e30, f32::NEG_INFINITY]).values().collect();
        assert_eq!(adjusted, [f32::INFINITY, f32::NEG_INFINITY]);
    }

    proptest! {
        /// As plainly as can be: on a copy of the whole row.
        #[test]
        fn blocks_are_adjusted_as_the_whole_row_would_be(
            row in prop::collection::vec(-9.0_f32..9.0, 0..3_000),
            biased in prop::collection::btree_map(0..3_500_u32, -99.0_f32..9.0, 0..40),
            prompt in prop::collection::vec(0..3_500_u32, 0..60),
            answer in prop::collection::vec(0..3_500_u32, 0..60),
            repeat in prop_oneof![Just(1.0_f32), 0.5_f32..2.0],
            presence in prop_oneof![Just(0.0_f32), -2.0_f32..2.0],
        ) {
            let tokens = |ids: &[u32]| ids.iter().copied().map(Token).collect::<Vec<_>>();
            let sampling = Sampling {
                repeat_penalty: repeat,
                presence_penalty: presence,
                frequency_penalty: presence / 2.0,
                logit_bias: biased.iter().map(|(&id, &bias)| Bias { token: Token(id), bias }).collect(),
                ..Sampling::GREEDY
            };
            let mut expected = row.clone();
            for (id, logit) in (0..).zip(&mut expected) {
                *logit += biased.get(&id).copied().unwrap_or(0.0);
                let count = answer.iter().filter(|it| **it == id).count();
                if count > 0 || prompt.contains(&id) {
                    *logit = if *logit > 0.0 { *logit / repeat } else { *logit * repeat };
                }
                if count > 0 {
                    *logit -= presence + presence / 2.0 * count as f32;
                }
            }
            let adjustments = Adjustments::new(&sampling, &tokens(&prompt), &tokens(&answer));
            let adjusted = match adjustments {
                Some(mut it) => it.apply(&row).values().collect(),
                None => row,
            };
            prop_assert_eq!(adjusted, expected);
        }
    }
}
