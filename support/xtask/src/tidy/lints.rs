//! Every crate inherits the workspace's lints, and `unsafe` stands in one crate only.

use super::{Member, Violation};
use crate::{source::Source, syntax};

/// The one place for `unsafe`.
const UNSAFE_HOME: &str = "engine-worker/llama/";

/// Checks that each manifest says `[lints] workspace = true`.
pub(super) fn check_manifests(members: &[Member]) -> Vec<Violation> {
    let bare = members.iter().filter(|member| !inherits(&member.manifest.text));
    bare.map(|member| {
        let message = format!("{} does not inherit [lints] workspace = true", member.name);
        Violation::new(&member.manifest.path, 1, message)
    })
    .collect()
}

fn inherits(manifest: &str) -> bool {
    let mut lines = manifest.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.any(|line| line == "[lints]") && lines.next() == Some("workspace = true")
}

/// Checks one Rust file, tests included.
///
/// # Errors
/// It has no Rust tokens.
pub(super) fn check_unsafe(source: &Source) -> syn::Result<Vec<Violation>> {
    if source.path.starts_with(UNSAFE_HOME) {
        return Ok(Vec::new());
    }
    let words = syntax::words(&source.text)?;
    let found = words.iter().filter(|word| word.name == "unsafe").map(|word| {
        let message = format!("unsafe may stand in {UNSAFE_HOME} only");
        Violation::new(&source.path, word.line, message)
    });
    Ok(found.collect())
}

#[cfg(test)]
mod tests {
    use super::{
        super::examples::{lines, member, source},
        *,
    };

    #[test]
    fn a_crate_that_does_not_inherit_is_named() {
        let mut good = member("core/kv", "kv", &[]);
        good.manifest.text.push_str("\n[lints]\nworkspace = true\n");
        let mut own = member("gateway", "gateway", &[]);
        own.manifest.text.push_str("\n[lints]\nrust.unsafe_code = \"allow\"\n");
        let none = member("proto", "proto", &[]);
        assert_eq!(
            lines(check_manifests(&[good, own, none])),
            [
                "gateway/Cargo.toml:1: gateway does not inherit [lints] workspace = true",
                "proto/Cargo.toml:1: proto does not inherit [lints] workspace = true",
            ]
        );
    }

    #[test]
    fn unsafe_is_found_even_in_macros_and_tests() {
        let text = "// unsafe\nfn f() { m!(unsafe { 1 }) }\nconst TEXT: &str = \"unsafe\";";
        let says = |path| lines(check_unsafe(&source(path, text)).expect("tokens"));
        assert_eq!(
            says("gateway/tests/api.rs"),
            ["gateway/tests/api.rs:2: unsafe may stand in engine-worker/llama/ only"]
        );
        assert_eq!(says("engine-worker/llama/src/context.rs"), [""; 0]);
    }
}
