//! How long prompts and answers are.

use units::TokenCount;

use crate::draws::Draws;

/// A distribution of lengths in tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Lengths {
    /// Always the same.
    Fixed(TokenCount),
    /// Each from `min` to `max` alike.
    Between {
        /// The shortest.
        min: TokenCount,
        /// The longest, not below `min`.
        max: TokenCount,
    },
    /// exp(normal), clipped. Its heavy tail is what makes scheduling hard.
    LogNormal {
        /// Mean of the logarithm.
        mu: f64,
        /// Standard deviation of the logarithm.
        sigma: f64,
        /// Shorter ones become this.
        min: TokenCount,
        /// Longer ones become this.
        max: TokenCount,
    },
}

impl Lengths {
    /// One length.
    #[must_use]
    pub fn draw(&self, draws: &mut Draws) -> TokenCount {
        match *self {
            Self::Fixed(tokens) => tokens,
            Self::Between { min, max } => {
                let spread = u64::from(max.saturating_sub(min).0) + 1;
                let above = u32::try_from(draws.below(spread)).expect("below a u32 and one");
                min + TokenCount(above)
            }
            Self::LogNormal { mu, sigma, min, max } => {
                let value = libm::exp(mu + sigma * draws.normal()).round();
                #[expect(clippy::cast_possible_truncation, reason = "float to int saturates")]
                #[expect(clippy::cast_sign_loss, reason = "exp is not negative")]
                let tokens = TokenCount(value as u32);
                tokens.clamp(min, max)
            }
        }
    }

    /// Every length times `factor`, none below one token.
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Self {
        match *self {
            Self::Fixed(tokens) => Self::Fixed(scale(tokens, factor)),
            Self::Between { min, max } => {
                Self::Between { min: scale(min, factor), max: scale(max, factor) }
            }
            Self::LogNormal { mu, sigma, min, max } => Self::LogNormal {
                mu: mu + libm::log(factor),
                sigma,
                min: scale(min, factor),
                max: scale(max, factor),
            },
        }
    }
}

/// `tokens` times `factor`, at least one.
pub(crate) fn scale(tokens: TokenCount, factor: f64) -> TokenCount {
    let scaled = (f64::from(tokens.0) * factor).round();
    #[expect(clippy::cast_possible_truncation, reason = "float to int saturates")]
    #[expect(clippy::cast_sign_loss, reason = "at least 1")]
    TokenCount(scaled.max(1.0) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw(lengths: Lengths, count: usize) -> Vec<u32> {
        let mut draws = Draws::new(5, 0);
        let mut all: Vec<_> = (0..count).map(|_| lengths.draw(&mut draws).0).collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn the_seeds_answers() {
        let (min, max) = (TokenCount(16), TokenCount(512));
        let all = draw(Lengths::LogNormal { mu: 4.6, sigma: 0.8, min, max }, 20_000);
        let mean = all.iter().map(|tokens| f64::from(*tokens)).sum::<f64>() / 20_000.0;
        // Measured in Python: median 100, mean 136, 95th percentile 380.
        assert!((97..=103).contains(&all[10_000]), "median {}", all[10_000]);
        assert!((130.0..138.0).contains(&mean), "mean {mean}");
        assert!((355..=390).contains(&all[19_000]), "p95 {}", all[19_000]);
        assert_eq!((all[0], all[19_999]), (16, 512));
    }

    #[test]
    fn both_ends_are_drawn() {
        let (min, max) = (TokenCount(3), TokenCount(5));
        let all = draw(Lengths::Between { min, max }, 100);
        assert_eq!((all[0], all[99]), (3, 5));
        assert_eq!(draw(Lengths::Fixed(min), 2), [3, 3]);
    }

    #[test]
    fn nothing_is_scaled_to_nothing() {
        assert_eq!(Lengths::Fixed(TokenCount(10)).scaled(0.01), Lengths::Fixed(TokenCount(1)));
        let half = Lengths::Between { min: TokenCount(4), max: TokenCount(8) }.scaled(0.5);
        assert_eq!(half, Lengths::Between { min: TokenCount(2), max: TokenCount(4) });
    }
}
