//! Log probabilities of tokens under the model itself.

use units::Token;

use crate::row::{self, BLOCK};

/// The most of the likeliest tokens that are told beside a sampled one.
pub const TOP_LOGPROBS_MAX: u32 = 20;

/// The least logarithm that is told, of tokens that the model holds for impossible. No one draws it.
const LEAST: f32 = -9_999.0;

/// A token and the natural logarithm of its probability, finite and at most 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Logprob {
    /// Which.
    pub token: Token,
    /// ln p.
    pub logprob: f32,
}

/// How likely a sampled token was, and what else was likely.
#[derive(Clone, Debug, PartialEq)]
pub struct Logprobs {
    /// ln p of the sampled token.
    pub chosen: f32,
    /// The likeliest tokens, best first, ties in favour of the lower id. Fewer than asked for if the
    /// row has fewer real logits.
    pub top: Vec<Logprob>,
}

impl Logprobs {
    /// Of `token` and the `count` likeliest tokens, by the row as the model made it: no bias, no
    /// penalty, no temperature and no filter is in them.
    ///
    /// A row without a likeliest finite logit says nothing about any token: all are as unlikely as can
    /// be told.
    #[must_use]
    pub fn of(logits: &[f32], token: Token, count: u32) -> Self {
        let largest = row::max(logits);
        if !largest.is_finite() {
            return Self { chosen: LEAST, top: Vec::new() };
        }
        let mass = row::sum(logits, |_, logit| row::exp(logit - largest)).ln();
        let logprob = |logit: f32| {
            #[expect(clippy::cast_possible_truncation, reason = "it is told in single precision")]
            let told = (f64::from(logit) - f64::from(largest) - mass) as f32;
            // NaN is as unlikely as can be told.
            if told >= LEAST { told.min(0.0) } else { LEAST }
        };
        let top = likeliest(logits, count as usize);
        Self {
            chosen: logits.get(token.0 as usize).map_or(LEAST, |&logit| logprob(logit)),
            top: top.map(|(logit, token)| Logprob { token, logprob: logprob(logit) }).collect(),
        }
    }
}

/// The `count` largest logits, falling, found in one pass: few of them are ever moved.
fn likeliest(logits: &[f32], count: usize) -> impl Iterator<Item = (f32, Token)> {
    let mut best: Vec<(f32, usize)> = Vec::with_capacity(count + 1);
    for (at, block) in logits.chunks(BLOCK).enumerate() {
        if count == 0 || row::max(block) <= floor(&best, count) {
            continue;
        }
        for (offset, &logit) in block.iter().enumerate() {
            if logit > floor(&best, count) {
                let place = best.partition_point(|&(other, _)| other >= logit);
                best.insert(place, (logit, at * BLOCK + offset));
                best.truncate(count);
            }
        }
    }
    let id = |index| u32::try_from(index).expect("vocabularies have fewer than 2^32 tokens");
    best.into_iter().map(move |(logit, index)| (logit, Token(id(index))))
}

/// What a logit has to exceed.
fn floor(best: &[(f32, usize)], count: usize) -> f32 {
    best.get(count - 1).map_or(f32::NEG_INFINITY, |&(logit, _)| logit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ids(logprobs: &Logprobs) -> Vec<u32> {
        logprobs.top.iter().map(|it| it.token.0).collect()
    }

    #[test]
    fn a_row_is_normalised() {
        let row = [1.0_f32, 3.0, 3.0, 2.0].map(f32::ln);
        let told = Logprobs::of(&row, Token(3), 3);
        assert_eq!(ids(&told), [1, 2, 3]);
        assert!((told.chosen - (2.0_f32 / 9.0).ln()).abs() < 1e-6, "{told:?}");
        assert!((told.top[0].logprob - (1.0_f32 / 3.0).ln()).abs() < 1e-6, "{told:?}");
        assert_eq!(told.top[2].logprob, told.chosen);
    }

    #[test]
    fn odd_rows_are_told_in_numbers() {
        let (nan, inf) = (f32::NAN, f32::INFINITY);
        for row in [&[][..], &[nan; 3], &[-inf; 3], &[inf, 1.0, inf]] {
            assert_eq!(Logprobs::of(row, Token(1), 5), Logprobs { chosen: LEAST, top: vec![] });
        }
        let told = Logprobs::of(&[nan, 5.0, -inf, -3e38], Token(0), 20);
        assert_eq!((told.chosen, ids(&told)), (LEAST, vec![1, 3]));
        assert_eq!((told.top[0].logprob, told.top[1].logprob), (0.0, LEAST));
        assert_eq!(Logprobs::of(&[1.0], Token(9), 0).chosen, LEAST);
    }

    proptest! {
        #[test]
        fn it_is_what_sorting_everything_would_give(
            row in prop::collection::vec(prop_oneof![-30.0_f32..30.0, Just(2.0), Just(f32::NEG_INFINITY)], 1..2_000),
            token in 0..2_000_u32,
            count in 0..21_u32,
        ) {
            prop_assume!(row::max(&row).is_finite());
            let told = Logprobs::of(&row, Token(token), count);
            let mut order: Vec<usize> =
                (0..row.len()).filter(|&id| row[id] > f32::NEG_INFINITY).collect();
            order.sort_by(|&a, &b| row[b].total_cmp(&row[a]).then(a.cmp(&b)));
            order.truncate(count as usize);
            let told_ids: Vec<usize> = told.top.iter().map(|it| it.token.0 as usize).collect();
            prop_assert_eq!(&told_ids, &order);

            let top = f64::from(row::max(&row));
            let mass: f64 = row.iter().map(|&logit| (f64::from(logit) - top).exp()).sum();
            let exact = |id: usize| f64::from(row[id]) - top - mass.ln();
            for (told, &id) in told.top.iter().zip(&order) {
                prop_assert!((f64::from(told.logprob) - exact(id)).abs() < 1e-5);
                prop_assert!(told.logprob <= 0.0);
            }
            prop_assert!((LEAST..=0.0).contains(&told.chosen));
        }
    }
}
