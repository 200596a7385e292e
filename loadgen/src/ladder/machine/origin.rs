//! What is measured: programs and model by content, the source by what is known of it.

use std::{path::Path, process::Command};

use anyhow::Context as _;

use super::{Programs, Stack};
use crate::{digest, record::Origin};

/// Digits of a hash that are written down.
const DIGITS: usize = 16;

/// Looks at all of it.
///
/// # Errors
/// A file cannot be read.
pub(super) fn of(
    stack: &Stack,
    programs: &Programs,
    source: Option<&str>,
) -> anyhow::Result<Origin> {
    let mut files = std::collections::BTreeMap::new();
    for spec in stack.all() {
        if !files.contains_key(&spec.program) {
            files.insert(spec.program.clone(), short(programs.path(spec))?);
        }
    }
    let text = serde_json::to_vec(stack)?;
    files.insert("stack".into(), digest::sha256(&text)[..DIGITS].to_owned());
    let model = programs.model.as_deref().map(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        anyhow::Ok((name, short(path)?))
    });
    Ok(Origin {
        runner: "machine".into(),
        source: source.map(Into::into).or_else(describe),
        files,
        model: model.transpose()?,
    })
}

fn short(path: &Path) -> anyhow::Result<String> {
    let hash = digest::sha256_file(path);
    let mut hash = hash.with_context(|| format!("cannot read {}", path.display()))?;
    hash.truncate(DIGITS);
    Ok(hash)
}

/// What git says of this folder.
fn describe() -> Option<String> {
    let args = ["describe", "--always", "--dirty", "--abbrev=12"];
    let output = Command::new("git").args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}
