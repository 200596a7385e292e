//! How a key is written down: `key [rpm=N] [concurrent=N]`.

use std::{convert::Infallible, fmt, str::FromStr};

use actix_web::http::header::HeaderValue;

use super::Limits;

/// Something that must not be shown.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(String);

impl FromStr for Secret {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("(secret)")
    }
}

/// Why a line is no key. Never says what the line says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum KeyError {
    #[error("a key cannot be sent in a header")]
    Unsendable,
    #[error("there is no key in it")]
    Missing,
    /// Perhaps a second key.
    #[error("what follows a key must be rpm=N or concurrent=N")]
    Unknown,
    #[error("{name} must be a whole number")]
    Number { name: &'static str },
}

/// One line, taken apart.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line<'a> {
    pub(super) key: &'a str,
    pub(super) limits: Limits,
}

impl Secret {
    /// Whether nothing at all is written there.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What an entry of a setting says. A setting has no comments.
    pub(super) fn entry(&self) -> &str {
        self.0.trim()
    }

    /// The lines of a key file with their numbers from 1, without comments and without empty ones.
    pub(super) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        let numbered = (1..).zip(self.0.lines().map(|line| uncommented(line).trim()));
        numbered.filter(|(_, line)| !line.is_empty())
    }
}

/// A line up to its comment, which begins with a `#` at its start or after white space: any other is a
/// part of a key.
fn uncommented(line: &str) -> &str {
    let begins = |at: &usize| line[..*at].chars().next_back().is_none_or(char::is_whitespace);
    let comment = line.match_indices('#').map(|(at, _)| at).find(begins);
    &line[..comment.unwrap_or(line.len())]
}

impl<'a> Line<'a> {
    /// One key, with `usual` for the limits that it does not name.
    pub(super) fn parse(line: &'a str, usual: Limits) -> Result<Self, KeyError> {
        let mut words = line.split_whitespace();
        let key = words.next().ok_or(KeyError::Missing)?;
        if HeaderValue::from_str(key).is_err() || !key.is_ascii() {
            return Err(KeyError::Unsendable);
        }
        let mut limits = usual;
        for word in words {
            let (name, value) = word.split_once('=').ok_or(KeyError::Unknown)?;
            let (limit, name) = match name {
                "rpm" => (&mut limits.per_minute, "rpm"),
                "concurrent" => (&mut limits.concurrent, "concurrent"),
                _ => return Err(KeyError::Unknown),
            };
            *limit = value.parse().map_err(|_| KeyError::Number { name })?;
        }
        Ok(Self { key, limits })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: Limits = Limits { per_minute: 60, concurrent: 4 };

    #[test]
    fn limits_are_overridden_one_by_one() {
        let limits = |line| Line::parse(line, USUAL).map(|line| line.limits);
        assert_eq!(limits("sk-a"), Ok(USUAL));
        assert_eq!(limits("sk-a rpm=5"), Ok(Limits { per_minute: 5, ..USUAL }));
        let both = Limits { per_minute: 0, concurrent: 9 };
        assert_eq!(limits("sk-a concurrent=9 rpm=0"), Ok(both));
    }

    #[test]
    fn mistakes_are_told_without_the_key() {
        for line in [
            "sk-a rpm=x",
            "sk-a rpm=-1",
            "sk-a rpm",
            "sk-a rps=1",
            "sk-a sk-b",
            "sk-a sk-b==",
            "sk-a # sk-b",
            "sk-a\nsk-b",
            "sk-\u{e9}",
        ] {
            let error = Line::parse(line, USUAL).expect_err("a mistake").to_string();
            assert!(!error.contains("sk-") && !error.contains("rps"), "{error}");
        }
        assert_eq!(Line::parse(" \t", USUAL), Err(KeyError::Missing));
    }

    #[test]
    fn comments_and_empty_lines_are_no_keys() {
        let file = Secret("# mine\n\n sk-a rpm=1 # old\r\n\t#\nsk-b\n\u{e9}#\n".into());
        let lines = [(3, "sk-a rpm=1"), (5, "sk-b"), (6, "\u{e9}#")];
        assert_eq!(file.lines().collect::<Vec<_>>(), lines);
    }

    #[test]
    fn a_key_may_hold_what_begins_a_comment_elsewhere() {
        let file = Secret("sk#a#b#\nsk-b\t#sk#c".into());
        assert_eq!(file.lines().collect::<Vec<_>>(), [(1, "sk#a#b#"), (2, "sk-b")]);
        assert_eq!(Secret(" #a ".into()).entry(), "#a");
    }

    #[test]
    fn a_secret_is_not_shown() {
        assert_eq!(format!("{:?}", vec![Secret("sk-a".into())]), "[(secret)]");
    }
}
