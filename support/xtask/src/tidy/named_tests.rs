//! Every test that a document names, like `gateway/tests/gateway/sse.rs::length_is_told_as_length`, is
//! there. What a document claims is then true for as long as the test passes.

use std::collections::BTreeMap;

use super::Violation;
use crate::source::Source;

/// Checks all documents.
pub(super) fn check(sources: &[Source]) -> Vec<Violation> {
    let files: BTreeMap<&str, &str> =
        sources.iter().map(|source| (source.path.as_str(), source.text.as_str())).collect();
    let documents = sources.iter().filter(|source| source.path.ends_with(".md"));
    let named = documents.flat_map(|document| {
        references(&document.text).map(move |(line, path, name)| (document, line, path, name))
    });
    named
        .filter_map(|(document, line, path, name)| {
            let what = match files.get(path) {
                None => format!("{path} is not there"),
                Some(text) if defines(path, text, name) => return None,
                Some(_) => format!("{path} has no {name}"),
            };
            Some(Violation::new(&document.path, line, what))
        })
        .collect()
}

/// Line, path and name of every `path::name` in code marks. The path of a module has no folder.
fn references(text: &str) -> impl Iterator<Item = (usize, &str, &str)> {
    text.lines().enumerate().flat_map(|(index, line)| {
        let in_marks = line.split('`').skip(1).step_by(2);
        let pairs = in_marks.filter_map(|code| code.split_once("::"));
        let in_files = pairs.filter(|(path, _)| path.contains('/') && path.contains('.'));
        in_files.map(move |(path, name)| (index + 1, path, name))
    })
}

/// Whether a file has the function, or the check, of this name.
fn defines(path: &str, text: &str, name: &str) -> bool {
    let spelt = match path.rsplit_once('.') {
        Some((_, "rs")) => format!("fn {name}("),
        Some((_, "py")) => format!("def {name}("),
        Some((_, "sh")) if !name.contains(' ') => format!("{name}() {{"),
        _ => format!("\"{name}\""),
    };
    text.contains(&spelt)
}

#[cfg(test)]
mod tests {
    use super::{
        super::examples::{lines, source},
        *,
    };

    fn says(document: &str) -> Vec<String> {
        lines(check(&[
            source("docs/A.md", document),
            source("a/tests/b.rs", "#[test]\nasync fn it_holds() {}\nfn blocks(total in 0..2) {}"),
            source("a/c.py", "def holds():\n    pass\n"),
            source("a/d.mjs", "\"who leaves\": async () => {"),
            source("a/e.sh", "stops() {\n    check=\"who stops\"\n}"),
        ]))
    }

    #[test]
    fn tests_that_are_there_pass() {
        assert_eq!(
            says(
                "`a/tests/b.rs::it_holds`, `a/tests/b.rs::blocks`\n`a/c.py::holds` `a/d.mjs::who leaves`"
            ),
            [""; 0]
        );
    }

    #[test]
    fn what_is_no_reference_is_left_alone() {
        assert_eq!(
            says("a/tests/b.rs::gone, `Engine::Prepare`, `std::time`, `a/tests/b.rs`"),
            [""; 0]
        );
    }

    #[test]
    fn tests_that_are_gone_are_named() {
        assert_eq!(
            says("\n| `a/tests/b.rs::it` | `a/tests/gone.rs::it_holds` |\n`a/c.py::it`"),
            [
                "docs/A.md:2: a/tests/b.rs has no it",
                "docs/A.md:2: a/tests/gone.rs is not there",
                "docs/A.md:3: a/c.py has no it",
            ]
        );
    }
}
