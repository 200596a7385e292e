//! The keys that were written down, in the settings and in the file that they name.
//!
//! What is written down wrong is never left out: one key less may be no key at all, and then everybody
//! may ask.

use std::{collections::BTreeMap, fmt, fs, path::Path};

use anyhow::{Context as _, bail};
use sha2::{Digest as _, Sha256};

use super::{
    Hash, Limits,
    key::{Line, Secret},
};
use crate::settings::KeySettings;

/// Comparing all keys has to stay cheap.
const KEYS_MAX: usize = 10_000;

/// The keys in the order in which they were written down.
#[derive(Debug, Default)]
pub(super) struct List<'a> {
    keys: Vec<(Hash, Limits)>,
    places: BTreeMap<Hash, Place<'a>>,
}

/// Where a key stands.
#[derive(Clone, Copy, Debug)]
enum Place<'a> {
    Entry(usize),
    Line(&'a Path, usize),
}

impl<'a> List<'a> {
    /// # Errors
    /// See [`super::Keys::load`].
    pub(super) fn of(settings: &'a KeySettings) -> anyhow::Result<Self> {
        let usual = settings.limits();
        let mut list = Self::default();
        for (number, secret) in (1..).zip(settings.listed()) {
            list.add(secret.entry(), usual, Place::Entry(number))?;
        }
        if let Some(path) = &settings.api_keys_file {
            let file = read(path)?;
            let mut lines = file.lines().peekable();
            if lines.peek().is_none() {
                bail!("api_keys_file: {}: there is no key in it", path.display());
            }
            for (number, line) in lines {
                list.add(line, usual, Place::Line(path, number))?;
            }
        }
        Ok(list)
    }

    fn add(&mut self, line: &str, usual: Limits, place: Place<'a>) -> anyhow::Result<()> {
        let line = Line::parse(line, usual).with_context(|| place.to_string())?;
        let hash = Sha256::digest(line.key).into();
        if let Some(other) = self.places.insert(hash, place) {
            bail!("{place}: the same key as {other}");
        }
        if self.keys.len() == KEYS_MAX {
            bail!("{place}: more than {KEYS_MAX} keys");
        }
        self.keys.push((hash, line.limits));
        Ok(())
    }

    pub(super) fn into_keys(self) -> impl Iterator<Item = (Hash, Limits)> {
        self.keys.into_iter()
    }
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Entry(number) => write!(formatter, "api_keys: entry {number}"),
            Self::Line(path, number) => {
                write!(formatter, "api_keys_file: {}: line {number}", path.display())
            }
        }
    }
}

fn read(path: &Path) -> anyhow::Result<Secret> {
    let text = fs::read_to_string(path);
    let text = text.with_context(|| format!("api_keys_file: {}", path.display()))?;
    Ok(text.parse().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is said to these entries and this file, with the file's path cut out.
    fn said(entries: &[&str], file: Option<&str>) -> Result<usize, String> {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("keys");
        if let Some(text) = file {
            fs::write(&path, text).expect("a file");
        }
        let settings = KeySettings {
            api_keys: entries.iter().map(|entry| entry.parse().expect("a secret")).collect(),
            api_keys_file: file.map(|_| path.clone()),
            ..KeySettings::default()
        };
        let list = List::of(&settings);
        let error = |error| format!("{error:#}").replace(&path.display().to_string(), "keys");
        list.map(|list| list.keys.len()).map_err(error)
    }

    fn mistake(entries: &[&str], file: Option<&str>) -> String {
        let error = said(entries, file).expect_err("a mistake");
        assert!(!error.contains("sk-"), "{error}");
        error
    }

    #[test]
    fn an_entry_without_a_key_is_a_mistake_and_not_left_out() {
        for (entries, number) in [
            (&[" "][..], 1),
            (&["\n"], 1),
            (&["", ""], 1),
            (&["sk-a", ""], 2),
            (&["", "sk-a"], 1),
            (&["sk-a", "\t", "sk-b"], 2),
        ] {
            let wanted = format!("api_keys: entry {number}: there is no key in it");
            assert_eq!(mistake(entries, None), wanted, "{entries:?}");
        }
        // An empty variable is how scripts spell "not set".
        assert_eq!((said(&[""], None), said(&[], None)), (Ok(0), Ok(0)));
        assert_eq!(said(&["sk-a", "sk-b\n"], None), Ok(2));
    }

    #[test]
    fn a_setting_has_no_comments() {
        for entry in ["# sk-a", "sk-a # mine", "sk-a #mine", "sk-a\nsk-b"] {
            assert!(mistake(&[entry], None).starts_with("api_keys: entry 1: "));
        }
    }

    #[test]
    fn what_is_wrong_with_a_file_is_told_without_its_keys() {
        for text in ["", "\n", "# none\n"] {
            assert_eq!(mistake(&[], Some(text)), "api_keys_file: keys: there is no key in it");
        }
        let wrong = mistake(&[], Some("sk-a\nsk-b rpm=much\n"));
        assert_eq!(wrong, "api_keys_file: keys: line 2: rpm must be a whole number");
        let settings =
            KeySettings { api_keys_file: Some("nowhere".into()), ..KeySettings::default() };
        let missing = List::of(&settings).expect_err("no file").to_string();
        assert!(missing.starts_with("api_keys_file: nowhere"), "{missing}");
    }

    #[test]
    fn a_key_stands_in_one_place() {
        let file = "# ours\nsk-b\nsk-a rpm=5\n";
        assert_eq!(said(&["sk-c"], Some(file)), Ok(3));
        assert_eq!(
            mistake(&["sk-a"], Some(file)),
            "api_keys_file: keys: line 3: the same key as api_keys: entry 1"
        );
        assert_eq!(
            mistake(&["sk-a", "sk-b", "sk-a rpm=5"], None),
            "api_keys: entry 3: the same key as api_keys: entry 1"
        );
        assert_eq!(
            mistake(&[], Some("sk-a\n\nsk-a # again")),
            "api_keys_file: keys: line 3: the same key as api_keys_file: keys: line 1"
        );
    }

    #[test]
    fn keys_are_bounded() {
        let lines: Vec<_> = (0..=KEYS_MAX).map(|number| format!("sk-{number}")).collect();
        assert_eq!(said(&[], Some(&lines[1..].join("\n"))), Ok(KEYS_MAX));
        let wanted = "api_keys_file: keys: line 10001: more than 10000 keys";
        assert_eq!(mistake(&[], Some(&lines.join("\n"))), wanted);
    }
}
