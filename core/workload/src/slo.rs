//! What counts as in time.

use std::{fmt, str::FromStr};

use units::Span;

use crate::Stretch;

/// Targets that a request has to meet, all of them. Written `e2e:4000,ttft:1000,itl:200`, in
/// milliseconds; `stretch:2.5*(80+2.2p+8t)` is an end-to-end target of each request's own.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Slo {
    /// From the intended arrival to the last token (`e2e`, or `e2el`).
    pub e2e: Option<Span>,
    /// From the intended arrival to the first token.
    pub ttft: Option<Span>,
    /// The longest gap between two tokens.
    pub itl: Option<Span>,
    /// The mean gap between two tokens.
    pub tpot: Option<Span>,
    /// From the intended arrival to the last token, by the request's size.
    pub stretch: Option<Stretch>,
}

/// Budgets that a request tells the server. Written like an [`Slo`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Budgets {
    /// Until the last token.
    pub e2e: Option<Span>,
    /// Until the first one.
    pub ttft: Option<Span>,
    /// How long it would wait for a place.
    pub patience: Option<Span>,
}

/// What a request that ended well looked like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// From the intended arrival to the last token.
    pub e2e: Span,
    /// To the first token; absent if there was none.
    pub ttft: Option<Span>,
    /// The longest gap; absent with fewer than two tokens.
    pub itl_max: Option<Span>,
    /// The mean gap; absent likewise.
    pub tpot: Option<Span>,
    /// Prompt tokens that no other prompt begins with.
    pub new_prompt_tokens: u32,
    /// Tokens of the answer.
    pub tokens: u32,
}

/// Whether targets were met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All of them.
    Met,
    /// At least this one was not.
    Missed(&'static str),
}

/// The text is no list of targets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseSloError {
    /// A part is not `name:milliseconds`.
    #[error("`{0}` is not name:milliseconds, as in e2e:4000,ttft:1000")]
    Form(String),
    /// Not a target of that form.
    #[error("`{0}` is not of the form 2.5*(80+2.2p+8t)")]
    Stretch(String),
    /// Not one of the names.
    #[error("`{name}` is none of {known}")]
    Name {
        /// What was written.
        name: String,
        /// What could have been.
        known: &'static str,
    },
    /// Twice.
    #[error("`{0}` is given twice")]
    Twice(String),
}

impl Slo {
    /// Whether nothing is asked.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Judges a request that ended well. What was not there to be late is not late.
    #[must_use]
    pub fn judge(&self, seen: &Observed) -> Verdict {
        let late = |limit: Option<Span>, took: Option<Span>| {
            limit.zip(took).is_some_and(|(limit, took)| took > limit)
        };
        let stretch = self.stretch.map(|it| it.limit(seen.new_prompt_tokens, seen.tokens));
        let checks = [
            ("e2e", late(self.e2e, Some(seen.e2e))),
            ("ttft", late(self.ttft, seen.ttft)),
            ("itl", late(self.itl, seen.itl_max)),
            ("tpot", late(self.tpot, seen.tpot)),
            ("stretch", late(stretch, Some(seen.e2e))),
        ];
        let missed = checks.into_iter().find(|(_, late)| *late);
        missed.map_or(Verdict::Met, |(name, _)| Verdict::Missed(name))
    }
}

impl FromStr for Slo {
    type Err = ParseSloError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut slo = Self::default();
        for part in text.split(',') {
            if let Some((name, stretch)) = stretch(part)? {
                fill(&mut slo.stretch, name, stretch)?;
                continue;
            }
            let (name, span) = time(part)?;
            let slot = match name {
                "e2e" | "e2el" => &mut slo.e2e,
                "ttft" => &mut slo.ttft,
                "itl" => &mut slo.itl,
                "tpot" => &mut slo.tpot,
                other => return Err(unknown(other, "e2e, ttft, itl, tpot, stretch")),
            };
            fill(slot, name, span)?;
        }
        Ok(slo)
    }
}

impl FromStr for Budgets {
    type Err = ParseSloError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut budgets = Self::default();
        for part in text.split(',') {
            let (name, span) = time(part)?;
            let slot = match name {
                "e2e" => &mut budgets.e2e,
                "ttft" => &mut budgets.ttft,
                "patience" => &mut budgets.patience,
                other => return Err(unknown(other, "e2e, ttft, patience")),
            };
            fill(slot, name, span)?;
        }
        Ok(budgets)
    }
}

impl fmt::Display for Slo {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts =
            [("e2e", self.e2e), ("ttft", self.ttft), ("itl", self.itl), ("tpot", self.tpot)];
        let mut separator = "";
        for (name, span) in parts {
            if let Some(span) = span {
                write!(out, "{separator}{name}:{}", span.0 as f64 / 1_000.0)?;
                separator = ",";
            }
        }
        if let Some(stretch) = self.stretch {
            write!(out, "{separator}stretch:{stretch}")?;
        }
        Ok(())
    }
}

/// A name and its milliseconds.
fn time(part: &str) -> Result<(&str, Span), ParseSloError> {
    let form = || ParseSloError::Form(part.into());
    let (name, millis) = part.trim().split_once(':').ok_or_else(form)?;
    let millis: f64 = millis.trim().parse().map_err(|_| form())?;
    let sane = millis >= 0.0 && millis.is_finite();
    let span = sane.then(|| Span::from_secs_f64(millis / 1_000.0)).ok_or_else(form)?;
    Ok((name.trim(), span))
}

/// `stretch` and what it says, where the part is that.
fn stretch(part: &str) -> Result<Option<(&str, Stretch)>, ParseSloError> {
    let Some((name, text)) = part.trim().split_once(':') else { return Ok(None) };
    if name.trim() != "stretch" {
        return Ok(None);
    }
    let stretch = text.parse().map_err(|_| ParseSloError::Stretch(text.into()))?;
    Ok(Some((name.trim(), stretch)))
}

fn fill<T>(slot: &mut Option<T>, name: &str, value: T) -> Result<(), ParseSloError> {
    if slot.replace(value).is_some() { Err(ParseSloError::Twice(name.into())) } else { Ok(()) }
}

fn unknown(name: &str, known: &'static str) -> ParseSloError {
    ParseSloError::Name { name: name.into(), known }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let slo: Slo = "e2e:4000, ttft:1000,itl:0.5".parse().expect("valid");
        assert_eq!(slo.e2e, Some(Span::from_secs(4)));
        assert_eq!(slo.itl, Some(Span(500)));
        assert_eq!(slo.to_string(), "e2e:4000,ttft:1000,itl:0.5");
        let own: Slo = "ttft:9,stretch:2.5*(80+2.2p+8t)".parse().expect("valid");
        assert_eq!(own.to_string(), "ttft:9,stretch:2.5*(80+2.2p+8t)");
        let budgets: Budgets = "patience:500".parse().expect("valid");
        assert_eq!(budgets.patience, Some(Span::from_millis(500)));
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        let error = |text: &str| text.parse::<Slo>().expect_err(text).to_string();
        assert_eq!(error("e2e"), "`e2e` is not name:milliseconds, as in e2e:4000,ttft:1000");
        assert_eq!(error("p99:5"), "`p99` is none of e2e, ttft, itl, tpot, stretch");
        assert_eq!(error("ttft:1,ttft:2"), "`ttft` is given twice");
        assert_eq!(error("stretch:9"), "`9` is not of the form 2.5*(80+2.2p+8t)");
        assert_eq!(error("stretch:1*(1+1p+1t),stretch:1*(1+1p+1t)"), "`stretch` is given twice");
        for bad in ["", "e2e:-1", "e2e:NaN", "e2e:inf", "e2e:1,"] {
            assert!(bad.parse::<Slo>().is_err(), "{bad}");
        }
        assert!("itl:5".parse::<Budgets>().is_err());
    }

    #[test]
    fn a_request_is_in_time_when_all_of_it_is() {
        let slo: Slo = "e2e:100,ttft:10,itl:5".parse().expect("valid");
        let seen = Observed {
            e2e: Span::from_millis(100),
            ttft: Some(Span::from_millis(10)),
            itl_max: Some(Span::from_millis(5)),
            ..Observed::default()
        };
        assert_eq!(slo.judge(&seen), Verdict::Met);
        let late = Observed { itl_max: Some(Span(5_001)), ..seen };
        assert_eq!(slo.judge(&late), Verdict::Missed("itl"));
        let own: Slo = "stretch:2*(10+1p+1t)".parse().expect("valid");
        let sized = |tokens| Observed { tokens, new_prompt_tokens: 30, ..seen };
        assert_eq!(own.judge(&sized(10)), Verdict::Met);
        assert_eq!(own.judge(&sized(9)), Verdict::Missed("stretch"));
        let short = Observed { e2e: Span(1), ..Observed::default() };
        assert_eq!(slo.judge(&short), Verdict::Met);
    }
}
