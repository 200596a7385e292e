//! Settings of API keys.

use std::path::PathBuf;

use crate::auth::{Limits, Secret};

/// Who may ask, and how much.
#[derive(Clone, Debug, Default, clap::Args, serde::Serialize)]
#[group(skip)]
pub struct KeySettings {
    /// API keys, each with limits of its own if it has any: `KEY`, `KEY rpm=60 concurrent=4`. Without a
    /// key everybody may ask; an entry without one is a mistake, unless nothing at all is written. Other
    /// users of the machine can read the command line: rather use the environment or the file.
    #[arg(long, value_delimiter = ',', hide_default_value = true)]
    #[serde(skip)]
    pub api_keys: Vec<Secret>,
    /// A file with one key a line, in the same form; # at a line's start or after white space begins a
    /// comment.
    #[arg(long, value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_keys_file: Option<PathBuf>,
    /// HTTP requests for answers that a key may make in a minute, here: each gateway counts for itself.
    /// So many at once, then evenly spread. One for several choices counts once; choices_max bounds
    /// them. 0: no limit.
    #[arg(long, default_value_t = 0)]
    pub key_requests_per_minute: u32,
    /// HTTP requests for answers that a key may have running at once, here. One for several choices
    /// counts once; choices_max bounds them. 0: no limit.
    #[arg(long, default_value_t = 0)]
    pub key_concurrent_max: u32,
}

impl KeySettings {
    pub(super) fn check(&self) -> Result<(), String> {
        let limits = [
            ("key_requests_per_minute", self.key_requests_per_minute),
            ("key_concurrent_max", self.key_concurrent_max),
        ];
        let limit = limits.into_iter().find(|(_, limit)| *limit > 0);
        match limit {
            Some((key, _)) if self.listed().is_empty() && self.api_keys_file.is_none() => {
                Err(format!("{key}: there are no api_keys for it to hold for"))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// The entries of `api_keys`. One that is wholly empty, and alone, is an empty variable: scripts
    /// and compose files spell "not set" so.
    pub(crate) fn listed(&self) -> &[Secret] {
        match self.api_keys.as_slice() {
            [only] if only.is_empty() => &[],
            entries => entries,
        }
    }

    /// What holds for a key that says nothing else.
    pub(crate) fn limits(&self) -> Limits {
        Limits { per_minute: self.key_requests_per_minute, concurrent: self.key_concurrent_max }
    }
}
