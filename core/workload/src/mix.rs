//! Workloads by name.

use units::TokenCount;

use crate::{
    draws::Draws,
    length::{Lengths, scale},
    prompt::{Passage, Prompt, UNSHARED},
    prose::Style,
};

/// System prompts, some of them shared, a user's turn, and a cap on the answer.
///
/// What is not shared is as long as what is, so the two populations differ in nothing but that.
#[derive(Clone, Debug, PartialEq)]
pub struct Mix {
    /// Share of requests with a shared system prompt, 0 to 1.
    pub shared_share: f64,
    /// Lengths of the shared system prompts, of which each is as likely.
    pub shared: Vec<TokenCount>,
    /// Lengths of the others.
    pub unique: Lengths,
    /// Lengths of the user's turn.
    pub turn: Lengths,
    /// Caps on the answer.
    pub answer: Lengths,
}

impl Mix {
    /// The project's reference: 70 % share one of four system prompts, answers are heavy-tailed.
    /// Prompts have 505 to 648 tokens.
    #[must_use]
    pub fn cadence() -> Self {
        Self {
            shared_share: 0.7,
            shared: [480, 520, 560, 600].map(TokenCount).to_vec(),
            unique: Lengths::Between { min: TokenCount(480), max: TokenCount(600) },
            turn: Lengths::Between { min: TokenCount(25), max: TokenCount(48) },
            answer: Lengths::LogNormal {
                mu: 4.6,
                sigma: 0.8,
                min: TokenCount(16),
                max: TokenCount(512),
            },
        }
    }

    /// The control: every prompt and every answer is as long as the reference's mean, so that no
    /// policy has anything to choose by.
    #[must_use]
    pub fn uniform() -> Self {
        Self {
            shared_share: 0.7,
            shared: vec![TokenCount(540); 4],
            unique: Lengths::Fixed(TokenCount(540)),
            turn: Lengths::Fixed(TokenCount(36)),
            answer: Lengths::Fixed(TokenCount(134)),
        }
    }

    /// The same shape with every length times `factor`, for machines that are too small for it.
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Self {
        Self {
            shared_share: self.shared_share,
            shared: self.shared.iter().map(|tokens| scale(*tokens, factor)).collect(),
            unique: self.unique.scaled(factor),
            turn: self.turn.scaled(factor),
            answer: self.answer.scaled(factor),
        }
    }

    /// A prompt and the cap on its answer.
    #[must_use]
    pub fn draw(&self, draws: &mut Draws) -> (Prompt, TokenCount) {
        let system = if draws.unit() < self.shared_share && !self.shared.is_empty() {
            let which = draws.below(self.shared.len() as u64);
            let index = usize::try_from(which).expect("an index of a list");
            Passage { id: which, style: Style::Instructions, tokens: self.shared[index] }
        } else {
            let tokens = self.unique.draw(draws);
            Passage { id: unique(draws), style: Style::Instructions, tokens }
        };
        let tokens = self.turn.draw(draws);
        let turn = Passage { id: unique(draws), style: Style::Question, tokens };
        (Prompt::chat(system, turn), self.answer.draw(draws))
    }
}

/// An id that no shared passage has.
fn unique(draws: &mut Draws) -> u64 {
    draws.bits() | UNSHARED
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn seven_in_ten_share_one_of_four() {
        let mut counts = BTreeMap::<u64, u32>::new();
        for index in 0..10_000 {
            let (prompt, answer) = Mix::cadence().draw(&mut Draws::new(1, index));
            assert!((505..=648).contains(&prompt.tokens().0), "{}", prompt.tokens().0);
            assert!((16..=512).contains(&answer.0));
            let system = prompt.passages().next().expect("a system prompt");
            let shared = if system.id < 4 { system.tokens } else { TokenCount(0) };
            assert_eq!(prompt.shared_tokens(), shared);
            *counts.entry(system.id).or_default() += 1;
        }
        let shared: Vec<_> = (0..4).map(|id| counts[&id]).collect();
        assert!(shared.iter().all(|count| (1_600..1_900).contains(count)), "{shared:?}");
        assert_eq!(counts.len(), 4 + 10_000 - shared.iter().sum::<u32>() as usize);
    }

    #[test]
    fn uniform_prompts_differ_in_nothing_but_sharing() {
        for index in 0..50 {
            let (prompt, answer) = Mix::uniform().draw(&mut Draws::new(1, index));
            assert_eq!((prompt.tokens(), answer), (TokenCount(576), TokenCount(134)));
        }
    }

    #[test]
    fn a_scaled_mix_asks_the_same_in_short() {
        let (long, _) = Mix::cadence().draw(&mut Draws::new(1, 9));
        let (short, answer) = Mix::cadence().scaled(0.25).draw(&mut Draws::new(1, 9));
        let ids = |prompt: &Prompt| prompt.passages().next().map(|passage| passage.id);
        assert_eq!(ids(&long), ids(&short));
        assert!((120..=162).contains(&short.tokens().0));
        assert!((4..=128).contains(&answer.0));
    }
}
