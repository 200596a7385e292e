//! How a token is drawn.

use std::collections::BTreeSet;

use units::Token;

/// The highest temperature: above it text is noise.
const TEMPERATURE_MAX: f32 = 2.0;

/// The strongest presence and frequency penalty, either way.
const PENALTY_MAX: f32 = 2.0;

/// The strongest repeat penalty.
const REPEAT_MAX: f32 = 10.0;

/// The strongest bias, either way.
const BIAS_MAX: f32 = 100.0;

/// The most entries of a bias: they are added for every token.
const BIAS_ENTRIES_MAX: usize = 1_024;

/// What is added to the logit of one token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bias {
    /// Whose.
    pub token: Token,
    /// From -100, which forbids the token, to 100.
    pub bias: f32,
}

/// Sampling parameters of one request. Plain data; [`Sampling::validate`] says what is allowed.
///
/// They apply in this order: bias, repeat penalty, presence and frequency penalty, `top_k`, `top_p`,
/// `min_p`, temperature. "The answer" is what was sampled so far.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampling {
    /// 0 is greedy, and then only bias and penalties matter; up to 2.
    pub temperature: f32,
    /// Draw among this many likeliest tokens; 0 is off, more than the vocabulary has is off too.
    pub top_k: u32,
    /// Draw among the likeliest tokens that have this much probability together, from 0 (only the
    /// likeliest) to 1 (off).
    pub top_p: f32,
    /// Draw among tokens that have this share of the likeliest one's probability, from 0 (off) to 1
    /// (only the likeliest and its equals).
    pub min_p: f32,
    /// Seed of the request's own generator.
    pub seed: u64,
    /// Taken off the logit of every token that the answer holds, from -2 to 2; 0 is off.
    pub presence_penalty: f32,
    /// Taken off as often as the answer holds the token, from -2 to 2; 0 is off.
    pub frequency_penalty: f32,
    /// Divides the positive and multiplies the negative logits of tokens that prompt or answer hold,
    /// above 0 and up to 10; 1 is off.
    pub repeat_penalty: f32,
    /// Added to logits before anything else. At most 1,024, each token once.
    pub logit_bias: Vec<Bias>,
}

/// A parameter is out of its range or not a number.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum SamplingError {
    /// See [`Sampling::temperature`].
    #[error("temperature must be from 0 to {TEMPERATURE_MAX}, not {0}")]
    Temperature(f32),
    /// See [`Sampling::top_p`].
    #[error("top_p must be from 0 to 1, not {0}")]
    TopP(f32),
    /// See [`Sampling::min_p`].
    #[error("min_p must be from 0 to 1, not {0}")]
    MinP(f32),
    /// See [`Sampling::presence_penalty`].
    #[error("presence_penalty must be from -{PENALTY_MAX} to {PENALTY_MAX}, not {0}")]
    Presence(f32),
    /// See [`Sampling::frequency_penalty`].
    #[error("frequency_penalty must be from -{PENALTY_MAX} to {PENALTY_MAX}, not {0}")]
    Frequency(f32),
    /// See [`Sampling::repeat_penalty`].
    #[error("repeat_penalty must be above 0 and at most {REPEAT_MAX}, not {0}")]
    Repeat(f32),
    /// See [`Bias::bias`].
    #[error("logit_bias must be from -{BIAS_MAX} to {BIAS_MAX}, not {bias} for token {token}", token = token.0)]
    Bias {
        /// Whose.
        token: Token,
        /// What was asked for.
        bias: f32,
    },
    /// See [`Sampling::logit_bias`].
    #[error("logit_bias must have at most {BIAS_ENTRIES_MAX} entries, not {0}")]
    BiasEntries(usize),
    /// See [`Sampling::logit_bias`].
    #[error("logit_bias must name each token once, not {token} again", token = token.0)]
    BiasTwice {
        /// The token with two entries.
        token: Token,
    },
    /// The token does not exist.
    #[error("logit_bias must name tokens below {vocabulary}, not {token}", token = token.0)]
    BiasToken {
        /// What was named.
        token: Token,
        /// Tokens of the model.
        vocabulary: usize,
    },
}

impl Sampling {
    /// Takes the likeliest token, whatever was said before.
    pub const GREEDY: Self = Self {
        temperature: 0.0,
        top_k: 0,
        top_p: 1.0,
        min_p: 0.0,
        seed: 0,
        presence_penalty: 0.0,
        frequency_penalty: 0.0,
        repeat_penalty: 1.0,
        logit_bias: Vec::new(),
    };

    /// Whether all parameters are numbers within their ranges, for a model of `vocabulary` tokens.
    ///
    /// # Errors
    /// Names the first one that is not.
    pub fn validate(&self, vocabulary: usize) -> Result<(), SamplingError> {
        use SamplingError as Wrong;
        let share = |value: f32| (0.0..=1.0).contains(&value);
        let penalty = |value: f32| (-PENALTY_MAX..=PENALTY_MAX).contains(&value);
        let repeats = self.repeat_penalty > 0.0 && self.repeat_penalty <= REPEAT_MAX;
        let rules = [
            (
                (0.0..=TEMPERATURE_MAX).contains(&self.temperature),
                Wrong::Temperature(self.temperature),
            ),
            (share(self.top_p), Wrong::TopP(self.top_p)),
            (share(self.min_p), Wrong::MinP(self.min_p)),
            (penalty(self.presence_penalty), Wrong::Presence(self.presence_penalty)),
            (penalty(self.frequency_penalty), Wrong::Frequency(self.frequency_penalty)),
            (repeats, Wrong::Repeat(self.repeat_penalty)),
        ];
        match rules.into_iter().find(|(holds, _)| !holds) {
            Some((_, wrong)) => Err(wrong),
            None => self.validate_bias(vocabulary),
        }
    }

    fn validate_bias(&self, vocabulary: usize) -> Result<(), SamplingError> {
        if self.logit_bias.len() > BIAS_ENTRIES_MAX {
            return Err(SamplingError::BiasEntries(self.logit_bias.len()));
        }
        let mut named = BTreeSet::new();
        for &Bias { token, bias } in &self.logit_bias {
            if token.0 as usize >= vocabulary {
                return Err(SamplingError::BiasToken { token, vocabulary });
            }
            if !(-BIAS_MAX..=BIAS_MAX).contains(&bias) {
                return Err(SamplingError::Bias { token, bias });
            }
            if !named.insert(token) {
                return Err(SamplingError::BiasTwice { token });
            }
        }
        Ok(())
    }

    /// Forbids tokens, whatever was said about them. They come on top of what a request may name.
    pub fn forbid(&mut self, tokens: impl IntoIterator<Item = Token>) {
        for token in tokens {
            self.logit_bias.retain(|entry| entry.token != token);
            self.logit_bias.push(Bias { token, bias: -BIAS_MAX });
        }
    }

    /// Whether the likeliest token is taken, and nothing is drawn.
    #[must_use]
    pub fn is_greedy(&self) -> bool {
        self.temperature == 0.0
    }

    /// Whether tokens of the answer count against themselves.
    pub(crate) fn penalises(&self) -> bool {
        self.presence_penalty != 0.0 || self.frequency_penalty != 0.0 || self.repeats()
    }

    /// Whether tokens of the prompt do too.
    pub(crate) fn repeats(&self) -> bool {
        self.repeat_penalty != 1.0
    }
}

impl Bias {
    /// Whether the token must not be drawn.
    pub(crate) fn forbids(self) -> bool {
        self.bias <= -BIAS_MAX
    }
}

impl SamplingError {
    /// The name of the field that is wrong.
    #[must_use]
    pub fn field(&self) -> &'static str {
        match self {
            Self::Temperature(_) => "temperature",
            Self::TopP(_) => "top_p",
            Self::MinP(_) => "min_p",
            Self::Presence(_) => "presence_penalty",
            Self::Frequency(_) => "frequency_penalty",
            Self::Repeat(_) => "repeat_penalty",
            Self::Bias { .. }
            | Self::BiasEntries(_)
            | Self::BiasTwice { .. }
            | Self::BiasToken { .. } => "logit_bias",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VOCABULARY: usize = 10;
    fn fine() -> Sampling {
        Sampling { temperature: 0.7, ..Sampling::GREEDY }
    }

    fn bias(entries: &[(u32, f32)]) -> Sampling {
        let entry = |&(token, bias): &(u32, f32)| Bias { token: Token(token), bias };
        Sampling { logit_bias: entries.iter().map(entry).collect(), ..fine() }
    }

    #[test]
    fn the_ends_of_every_range_are_allowed() {
        let widest = Sampling {
            temperature: 2.0,
            top_k: u32::MAX,
            top_p: 0.0,
            min_p: 1.0,
            presence_penalty: 2.0,
            frequency_penalty: -2.0,
            repeat_penalty: 10.0,
            ..bias(&[(0, -100.0), (9, 100.0), (3, 0.0)])
        };
        let all = [widest, Sampling::GREEDY, fine()];
        assert_eq!(all.map(|it| it.validate(VOCABULARY)), [Ok(()); 3]);
        let most = (0..1_024).map(|token| (token, 1.0)).collect::<Vec<_>>();
        assert_eq!(bias(&most).validate(1_024), Ok(()));
    }

    fn refuse(wrong: &Sampling, field: &str) {
        let error = wrong.validate(VOCABULARY).expect_err("out of range");
        assert!(error.field() == field && error.to_string().starts_with(field), "{error}");
    }

    #[test]
    fn what_is_out_of_range_is_named() {
        for bad in [-2.1, 100.1, f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            refuse(&Sampling { temperature: bad, ..fine() }, "temperature");
            refuse(&Sampling { top_p: bad, ..fine() }, "top_p");
            refuse(&Sampling { min_p: bad, ..fine() }, "min_p");
            refuse(&Sampling { presence_penalty: bad, ..fine() }, "presence_penalty");
            refuse(&Sampling { frequency_penalty: bad, ..fine() }, "frequency_penalty");
            refuse(&Sampling { repeat_penalty: bad, ..fine() }, "repeat_penalty");
            refuse(&bias(&[(1, 0.0), (2, bad * 50.0)]), "logit_bias");
        }
        refuse(&Sampling { repeat_penalty: 0.0, ..fine() }, "repeat_penalty");
    }

    #[test]
    fn a_bias_names_each_token_of_the_vocabulary_once() {
        refuse(&bias(&[(10, 1.0)]), "logit_bias");
        refuse(&bias(&[(u32::MAX, 1.0)]), "logit_bias");
        refuse(&bias(&[(4, 1.0), (5, 1.0), (4, 1.0)]), "logit_bias");
        refuse(&bias(&vec![(1, 1.0); 1_025]), "logit_bias");
    }
}
