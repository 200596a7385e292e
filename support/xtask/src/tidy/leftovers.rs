//! What must not be committed: unfinished work, tests switched off, and folders of one machine.

use super::Violation;
use crate::source::Source;

/// A text, and what to say where it is found. They are spelt in halves, so that this file passes.
const BANNED: [(&str, &str); 9] = [
    (concat!("to", "do!"), "unfinished"),
    (concat!("unimple", "mented!"), "unfinished"),
    (concat!("TO", "DO"), "unfinished"),
    (concat!("FIX", "ME"), "unfinished"),
    (concat!("#[ig", "nore]"), "a test is switched off without a reason"),
    (concat!("/wo", "rk"), "a folder of one machine"),
    (concat!("/ro", "ot"), "a folder of one machine"),
    (concat!("/tmp/tar", "get"), "a folder of one machine"),
    (concat!("/home/", "user"), "a folder of one machine"),
];

/// Checks every line of every file.
pub(super) fn check(sources: &[Source]) -> Vec<Violation> {
    let in_source = |source: &Source| {
        let lines = source.text.lines().enumerate();
        lines.filter_map(|(index, line)| check_line(&source.path, index + 1, line)).collect()
    };
    sources.iter().flat_map::<Vec<_>, _>(in_source).collect()
}

fn check_line(path: &str, number: usize, line: &str) -> Option<Violation> {
    let (banned, why) = BANNED.iter().find(|(banned, _)| stands_alone(line, banned))?;
    Some(Violation::new(path, number, format!("{banned}: {why}")))
}

/// Whether `line` has `text` with no letter, digit or `_` joined to it. A folder is joined to the path
/// before it, too.
fn stands_alone(line: &str, text: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let joins = |c: char| is_word(c) || text.starts_with('/') && matches!(c, '.' | '-' | '}' | ')');
    line.match_indices(text).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + text.len()..].chars().next();
        !before.is_some_and(joins)
            && (!text.ends_with(char::is_alphanumeric) || !after.is_some_and(is_word))
    })
}

#[cfg(test)]
mod tests {
    use super::{
        super::examples::{lines, source},
        *,
    };

    #[test]
    fn every_ban_bites() {
        for (banned, why) in BANNED {
            let found = lines(check(&[source("a/src/lib.rs", &format!("fn f()\n  {banned} x"))]));
            assert_eq!(found, [format!("a/src/lib.rs:2: {banned}: {why}")]);
        }
    }

    #[test]
    fn parts_of_longer_words_pass() {
        for (_, text) in [
            ("a folder below another", concat!(".github/wo", "rkflows a/wo", "rk ./wo", "rk")),
            ("another folder", concat!("/wo", "rkspace /ro", "ots")),
            ("another word", concat!("TO", "DOS MASTO", "DON to", "do")),
        ] {
            assert_eq!(lines(check(&[source("a.md", text)])), [""; 0], "{text}");
        }
    }

    #[test]
    fn every_kind_of_file_is_read() {
        let text = format!("cp x {}/y", concat!("/wo", "rk"));
        let found = lines(check(&[source("Makefile", &text)]));
        assert_eq!(
            found,
            [format!("Makefile:1: {}: a folder of one machine", concat!("/wo", "rk"))]
        );
    }
}
