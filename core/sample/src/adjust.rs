//! What happens to logits before anything looks at them: bias, then penalties.
//!
//! Few tokens are concerned, so the row is copied into a buffer that is kept, and changed there in
//! those places only. What is held is a function of prompt and answer: a preempted sequence that joins
//! again counts the same.

use std::collections::BTreeMap;

use units::Token;

use crate::{Sampling, params::Bias};

/// The adjustments of one sequence, with what they have to remember of it.
#[derive(Clone, Debug)]
pub(crate) struct Adjustments {
    bias: Vec<Bias>,
    presence: f32,
    frequency: f32,
    repeat: f32,
    /// How often the answer holds a token; with a repeat penalty the prompt's tokens are here too,
    /// with 0. Empty without penalties.
    held: BTreeMap<Token, u32>,
    penalises: bool,
    row: Vec<f32>,
}

impl Adjustments {
    /// What `sampling` asks for after `prompt` and `answer`; `None` if it leaves logits alone.
    pub(crate) fn new(sampling: &Sampling, prompt: &[Token], answer: &[Token]) -> Option<Self> {
        let penalises = sampling.penalises();
        if !penalises && sampling.logit_bias.is_empty() {
            return None;
        }
        let repeated = if sampling.repeats() { prompt } else { &[] };
        let mut adjustments = Self {
            bias: sampling.logit_bias.clone(),
            presence: sampling.presence_penalty,
            frequency: sampling.frequency_penalty,
            repeat: sampling.repeat_penalty,
            held: repeated.iter().map(|&token| (token, 0)).collect(),
            penalises,
            row: Vec::new(),
        };
        answer.iter().for_each(|&token| adjustments.note(token));
        Some(adjustments)
    }

    /// The answer holds one more token.
    pub(crate) fn note(&mut self, token: Token) {
        if self.penalises {
            *self.held.entry(token).or_insert(0) += 1;
        }
    }

    /// The adjusted row.
    pub(crate) fn apply(&mut self, logits: &[f32]) -> &[f32] {
        let Self { bias, held, row, .. } = self;
        row.clear();
        row.extend_from_slice(logits);
        for entry in bias.iter() {
            if let Some(logit) = row.get_mut(entry.token.0 as usize) {
                *logit = if entry.forbids() { f32::NEG_INFINITY } else { *logit + entry.bias };
            }
        }
        let (presence, frequency, repeat) = (self.presence, self.frequency, self.repeat);
        for (token, &count) in held.iter() {
            let Some(logit) = row.get_mut(token.0 as usize) else { continue };
            *logit = if *logit > 0.0 { *logit / repeat } else { *logit * repeat };
            if count > 0 {
                *logit -= presence + frequency * count as f32;
            }
        }
        row
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROMPT: [Token; 2] = [Token(0), Token(1)];
    const ANSWER: [Token; 3] = [Token(1), Token(2), Token(2)];
    const ROW: [f32; 5] = [2.0, -2.0, 4.0, 1.0, f32::NAN];

    fn adjusted(sampling: &Sampling) -> Vec<f32> {
        let adjustments = Adjustments::new(sampling, &PROMPT, &ANSWER);
        adjustments.expect("it adjusts").apply(&ROW)[..4].to_vec()
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
        assert_eq!(adjustments.apply(&[]), [0.0; 0]);
        assert_eq!(
            adjustments.apply(&[1e30, f32::NEG_INFINITY]),
            [f32::INFINITY, f32::NEG_INFINITY]
        );
    }
}
