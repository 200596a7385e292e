//! A target that follows from the request: so many times what it would take on an idle server.

use std::{fmt, str::FromStr};

use units::Span;

/// `factor * (base + per_prompt_token * p + per_token * t)`, in milliseconds, where `p` counts the prompt
/// tokens that nobody else's prompt begins with and `t` the tokens of the answer. Written
/// `2.5*(80+2.2p+8t)`.
///
/// One fixed time asks little of short requests and the impossible of long ones; this asks as much of each.
/// It is the same for every server, whatever that had cached.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stretch {
    /// How many times as long it may take, at least 0.
    pub factor: f64,
    /// What any request takes, in milliseconds.
    pub base_ms: f64,
    /// What each new prompt token takes, in milliseconds.
    pub per_prompt_token_ms: f64,
    /// What each token of the answer takes, in milliseconds.
    pub per_token_ms: f64,
}

/// The text is not of that form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAStretch;

impl Stretch {
    /// The time that a request of that size has.
    #[must_use]
    pub fn limit(&self, new_prompt_tokens: u32, tokens: u32) -> Span {
        let prompt_ms = self.per_prompt_token_ms * f64::from(new_prompt_tokens);
        let answer_ms = self.per_token_ms * f64::from(tokens);
        Span::from_secs_f64(self.factor * (self.base_ms + prompt_ms + answer_ms) / 1e3)
    }
}

impl FromStr for Stretch {
    type Err = NotAStretch;

    fn from_str(text: &str) -> Result<Self, NotAStretch> {
        let (factor, sum) = text.split_once('*').ok_or(NotAStretch)?;
        let sum = sum.trim().strip_prefix('(').and_then(|sum| sum.strip_suffix(')'));
        let (base, rest) = sum.and_then(|sum| sum.split_once('+')).ok_or(NotAStretch)?;
        let (prompt, answer) = rest.split_once('+').ok_or(NotAStretch)?;
        let prompt = prompt.trim().strip_suffix('p').ok_or(NotAStretch)?;
        let answer = answer.trim().strip_suffix('t').ok_or(NotAStretch)?;
        let number = |text: &str| {
            let number: f64 = text.trim().parse().map_err(|_| NotAStretch)?;
            if (0.0..1e9).contains(&number) { Ok(number) } else { Err(NotAStretch) }
        };
        Ok(Self {
            factor: number(factor)?,
            base_ms: number(base)?,
            per_prompt_token_ms: number(prompt)?,
            per_token_ms: number(answer)?,
        })
    }
}

impl fmt::Display for Stretch {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { factor, base_ms, per_prompt_token_ms, per_token_ms } = self;
        write!(out, "{factor}*({base_ms}+{per_prompt_token_ms}p+{per_token_ms}t)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let stretch: Stretch = "2.5 * (80 + 2.2p + 8t)".parse().expect("valid");
        assert_eq!(stretch.to_string(), "2.5*(80+2.2p+8t)");
        assert_eq!(stretch.limit(100, 50), Span::from_millis(1_750));
        for bad in ["", "2.5", "2*80", "2*(80)", "2*(80+1p)", "2*(80+1t+1p)", "-1*(80+1p+1t)"] {
            assert_eq!(bad.parse::<Stretch>(), Err(NotAStretch), "{bad}");
        }
        for bad in ["NaN*(1+1p+1t)", "1*(inf+1p+1t)", "1*(1+1p+1t", "1e99*(1+1p+1t)"] {
            assert_eq!(bad.parse::<Stretch>(), Err(NotAStretch), "{bad}");
        }
    }
}
