//! What the requests of a run ask.

use units::TokenCount;

use crate::{
    draws::Draws,
    length::Lengths,
    mix::Mix,
    prompt::{Content, Prompt},
    slo::Budgets,
};

/// What one request asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The messages.
    pub prompt: Prompt,
    /// Cap on the answer.
    pub max_tokens: TokenCount,
    /// What it tells the server about its time, beyond what the run says for all.
    pub budgets: Budgets,
}

/// A prompt that somebody wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// The messages.
    pub prompt: Prompt,
    /// Cap on the answer; drawn where it is absent.
    pub max_tokens: Option<TokenCount>,
    /// See [`Ask`].
    pub budgets: Budgets,
}

/// Where asks come from: a function of seed and number, so that none has to be kept.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// Drawn.
    Mix(Mix),
    /// In this order, and from the beginning again; not empty.
    Given {
        /// The prompts.
        prompts: Vec<Given>,
        /// Caps where a prompt names none.
        answer: Lengths,
    },
}

impl Source {
    /// What request number `index` of a run asks.
    #[must_use]
    pub fn ask(&self, seed: u64, index: u64) -> Ask {
        let mut draws = Draws::new(seed, index);
        match self {
            Self::Mix(mix) => {
                let (prompt, max_tokens) = mix.draw(&mut draws);
                Ask { prompt, max_tokens, budgets: Budgets::default() }
            }
            Self::Given { prompts, answer } => {
                let at = usize::try_from(index).unwrap_or(usize::MAX) % prompts.len().max(1);
                let drawn = answer.draw(&mut draws);
                prompts.get(at).map_or_else(|| empty(drawn), |given| given.ask(drawn))
            }
        }
    }
}

impl Given {
    fn ask(&self, drawn: TokenCount) -> Ask {
        Ask {
            prompt: self.prompt.clone(),
            max_tokens: self.max_tokens.unwrap_or(drawn),
            budgets: self.budgets,
        }
    }
}

fn empty(max_tokens: TokenCount) -> Ask {
    let prompt = Prompt::user(Content::Text(String::new()));
    Ask { prompt, max_tokens, budgets: Budgets::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_prompts_come_in_their_order_again_and_again() {
        let given = |text: &str, cap: Option<u32>| Given {
            prompt: Prompt::user(Content::Text(text.into())),
            max_tokens: cap.map(TokenCount),
            budgets: Budgets::default(),
        };
        let source = Source::Given {
            prompts: vec![given("one", Some(5)), given("two", None)],
            answer: Lengths::Fixed(TokenCount(9)),
        };
        let asks: Vec<_> = (0..3).map(|index| source.ask(0, index)).collect();
        let seen: Vec<_> = asks.iter().map(|ask| (ask.prompt.text(), ask.max_tokens.0)).collect();
        assert_eq!(seen, [("one".into(), 5), ("two".into(), 9), ("one".into(), 5)]);
    }

    #[test]
    fn a_request_does_not_depend_on_those_before_it() {
        let source = Source::Mix(Mix::cadence());
        assert_eq!(source.ask(3, 17), source.ask(3, 17));
        assert_ne!(source.ask(3, 17), source.ask(4, 17));
    }
}
