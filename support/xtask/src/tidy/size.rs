//! How long shipped files and functions may be. A ratchet, not a goal: most are far shorter.

use super::Violation;
use crate::{source::Source, syntax::Outline};

const FILE_LINES_MAX: usize = 600;
const FUNCTION_LINES_MAX: usize = 90;

/// Checks one file; its tests do not count.
pub(super) fn check(source: &Source, outline: &Outline) -> Vec<Violation> {
    let lines = source.text.lines().count().saturating_sub(outline.test_lines);
    let file = (lines > FILE_LINES_MAX).then(|| {
        let message = format!("the file has {lines} lines, at most {FILE_LINES_MAX}");
        Violation::new(&source.path, 1, message)
    });
    let long = outline.functions.iter().filter(|function| function.lines > FUNCTION_LINES_MAX);
    let functions = long.map(|function| {
        let (name, lines) = (&function.at.name, function.lines);
        let message = format!("{name} has {lines} lines, at most {FUNCTION_LINES_MAX}");
        Violation::new(&source.path, function.at.line, message)
    });
    file.into_iter().chain(functions).collect()
}

#[cfg(test)]
mod tests {
    use super::{
        super::examples::{lines, source},
        *,
    };

    fn says(text: &str) -> Vec<String> {
        lines(check(&source("a/src/lib.rs", text), &Outline::parse(text).expect("Rust")))
    }

    fn function(lines: usize) -> String {
        format!("fn f() {{\n{}}}\n", "    g();\n".repeat(lines - 2))
    }

    #[test]
    fn functions_up_to_the_limit_pass() {
        assert_eq!(says(&function(FUNCTION_LINES_MAX)), [""; 0]);
        assert_eq!(
            says(&format!("\n{}", function(FUNCTION_LINES_MAX + 1))),
            ["a/src/lib.rs:2: f has 91 lines, at most 90"]
        );
    }

    #[test]
    fn files_up_to_the_limit_pass() {
        let text = "// A line.\n".repeat(FILE_LINES_MAX);
        assert_eq!(says(&text), [""; 0]);
        assert_eq!(
            says(&format!("{text}\n")),
            ["a/src/lib.rs:1: the file has 601 lines, at most 600"]
        );
    }

    #[test]
    fn tests_do_not_count() {
        let body = function(FUNCTION_LINES_MAX + 1).repeat(7);
        assert_eq!(says(&format!("fn f() {{}}\n#[cfg(test)]\nmod tests {{\n{body}}}\n")), [""; 0]);
    }
}
