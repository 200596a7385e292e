//! Every invariant id that the code names is explained in one document, and every id explained there
//! is named by code.

use std::collections::BTreeMap;

use super::Violation;
use crate::source::Source;

const DOCUMENT: &str = "docs/INVARIANTS.md";
/// Subjects: the KV core, the scheduler, admission, text, virtual time.
const SUBJECTS: [&str; 5] = ["KV", "SC", "AD", "TX", "VT"];
/// This crate names ids as examples only.
const EXAMPLES: &str = "support/xtask/";

/// Checks the document against all Rust sources.
pub(super) fn check(sources: &[Source]) -> Vec<Violation> {
    let Some(document) = sources.iter().find(|source| source.path == DOCUMENT) else {
        return vec![Violation::new(DOCUMENT, 1, "missing; it explains every invariant")];
    };
    let code = sources.iter().filter(|it| it.is_rust() && !it.path.starts_with(EXAMPLES));
    let mut used = BTreeMap::new();
    for source in code {
        for (id, line) in ids(&source.text) {
            used.entry(id).or_insert((source.path.as_str(), line));
        }
    }
    let explained: BTreeMap<_, _> = ids(&document.text).into_iter().rev().collect();

    let unexplained =
        used.iter().filter(|(id, _)| !explained.contains_key(*id)).map(|(id, (path, line))| {
            Violation::new(path, *line, format!("{id} is not in {DOCUMENT}"))
        });
    let unused = explained
        .iter()
        .filter(|(id, _)| !used.contains_key(*id))
        .map(|(id, line)| Violation::new(DOCUMENT, *line, format!("{id} is named by no code")));
    unexplained.chain(unused).collect()
}

/// Every id like `KV-1` with its line.
fn ids(text: &str) -> Vec<(&str, usize)> {
    let in_line = |(index, line)| {
        let words = str::split(line, |c: char| !(c.is_alphanumeric() || c == '-' || c == '_'));
        words.filter(|word| is_id(word)).map(move |word| (word, index + 1))
    };
    text.lines().enumerate().flat_map(in_line).collect()
}

fn is_id(word: &str) -> bool {
    word.split_once('-').is_some_and(|(subject, number)| {
        let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        SUBJECTS.contains(&subject) && digits
    })
}

#[cfg(test)]
mod tests {
    use super::{
        super::examples::{lines, source},
        *,
    };

    #[test]
    fn code_and_document_agree() {
        let sources = [
            source("core/kv/src/check.rs", "/// KV-1: conserved.\nassert!(ok, \"KV-1, SC-20\");"),
            source(DOCUMENT, "- **KV-1** blocks\n- SC-20: steps. See KV-1."),
            source("gateway/src/lib.rs", "// UTF-8, SHA-256, XKV-3, KV-, KV-x, KV-1-2 are no ids."),
        ];
        assert_eq!(lines(check(&sources)), [""; 0]);
    }

    #[test]
    fn both_directions_are_checked() {
        let sources = [
            source("core/kv/src/check.rs", "\nassert!(ok, \"KV-2\");"),
            source(DOCUMENT, "KV-1 first\nKV-1 again"),
        ];
        assert_eq!(
            lines(check(&sources)),
            [
                "core/kv/src/check.rs:2: KV-2 is not in docs/INVARIANTS.md",
                "docs/INVARIANTS.md:1: KV-1 is named by no code",
            ]
        );
    }

    #[test]
    fn a_missing_document_is_one_line() {
        assert_eq!(
            lines(check(&[source("core/kv/src/check.rs", "// KV-1")])),
            ["docs/INVARIANTS.md:1: missing; it explains every invariant"]
        );
    }
}
