//! Every crate has the workspace's lints, and `unsafe` stands in one place only.

use std::collections::BTreeSet;

use super::{Member, Violation};
use crate::{source::Source, syntax};

/// The one file for `unsafe`, and how often it may stand there.
const UNSAFE_HOME: &str = "engine-worker/llama/src/quantize.rs";
const UNSAFE_MAX: usize = 1;

/// The crate around it. It cannot inherit what it has to soften, so it repeats the rest.
const UNSAFE_CRATE: &str = "llama";

/// What the workspace says of `unsafe`, and what that crate says instead.
const FORBIDDEN: &str = "rust.unsafe_code = \"forbid\"";
const INSTEAD: [&str; 3] = [
    "rust.unsafe_code = \"deny\"",
    "rust.unsafe_op_in_unsafe_fn = \"deny\"",
    "clippy.undocumented_unsafe_blocks = \"deny\"",
];

/// Checks that each manifest says `[lints] workspace = true`, or in one case the same in its own words.
pub(super) fn check_manifests(members: &[Member], workspace: &str) -> Vec<Violation> {
    let differ = members.iter().filter(|member| match member.name.as_str() {
        UNSAFE_CRATE => lints(&member.manifest.text, "") != softened(workspace),
        _ => !inherits(&member.manifest.text),
    });
    differ
        .map(|member| {
            let name = &member.name;
            let message = match name.as_str() {
                UNSAFE_CRATE => format!("{name} differs from the workspace's lints, unsafe aside"),
                _ => format!("{name} does not inherit [lints] workspace = true"),
            };
            Violation::new(&member.manifest.path, 1, message)
        })
        .collect()
}

fn inherits(manifest: &str) -> bool {
    let mut lines = manifest.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.any(|line| line == "[lints]") && lines.next() == Some("workspace = true")
}

/// The workspace's lints as the crate with `unsafe` must have them.
fn softened(workspace: &str) -> BTreeSet<String> {
    let mut lints = lints(workspace, "workspace.");
    lints.remove(FORBIDDEN);
    lints.extend(INSTEAD.map(str::to_owned));
    lints
}

/// The lines of the tables `[lints.TOOL]`, each with its tool before it.
fn lints(manifest: &str, prefix: &str) -> BTreeSet<String> {
    let header = format!("[{prefix}lints.");
    let mut tool = None;
    let mut found = BTreeSet::new();
    for line in manifest.lines().map(str::trim) {
        if line.starts_with('[') {
            tool = line.strip_prefix(&header).and_then(|rest| rest.strip_suffix(']'));
        } else if let (Some(tool), true) = (tool, line.contains('=') && !line.starts_with('#')) {
            found.insert(format!("{tool}.{line}"));
        }
    }
    found
}

/// Checks one Rust file, tests included.
///
/// # Errors
/// It has no Rust tokens.
pub(super) fn check_unsafe(source: &Source) -> syn::Result<Vec<Violation>> {
    let allowed = if source.path == UNSAFE_HOME { UNSAFE_MAX } else { 0 };
    let words = syntax::words(&source.text)?;
    let found = words.iter().filter(|word| word.name == "unsafe").skip(allowed).map(|word| {
        let message = format!("unsafe may stand in {UNSAFE_HOME} only, and there once");
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

    const WORKSPACE: &str = "[workspace.lints.rust]\nunsafe_code = \"forbid\"\nmissing_docs = \"warn\"\n\n\
                             [workspace.lints.clippy]\nprint_stdout = \"warn\"\n\n[profile.dev]\nopt-level = 1\n";

    #[test]
    fn a_crate_that_does_not_inherit_is_named() {
        let mut good = member("core/kv", "kv", &[]);
        good.manifest.text.push_str("\n[lints]\nworkspace = true\n");
        let mut own = member("gateway", "gateway", &[]);
        own.manifest.text.push_str("\n[lints]\nrust.unsafe_code = \"allow\"\n");
        let none = member("proto", "proto", &[]);
        assert_eq!(
            lines(check_manifests(&[good, own, none], WORKSPACE)),
            [
                "gateway/Cargo.toml:1: gateway does not inherit [lints] workspace = true",
                "proto/Cargo.toml:1: proto does not inherit [lints] workspace = true",
            ]
        );
    }

    #[test]
    fn the_crate_with_unsafe_softens_that_and_nothing_else() {
        let own = "[lints.rust]\n# Why.\nunsafe_code = \"deny\"\nunsafe_op_in_unsafe_fn = \"deny\"\n\
                   missing_docs = \"warn\"\n[lints.clippy]\nundocumented_unsafe_blocks = \"deny\"\n\
                   print_stdout = \"warn\"\n";
        let says = |lints: &str| {
            let mut member = member("engine-worker/llama", "llama", &["units"]);
            member.manifest.text.push_str(lints);
            lines(check_manifests(&[member], WORKSPACE))
        };
        assert_eq!(says(own), [""; 0]);
        let wrong = [
            "engine-worker/llama/Cargo.toml:1: llama differs from the workspace's lints, unsafe aside",
        ];
        for (from, to) in [
            ("unsafe_code = \"deny\"", "unsafe_code = \"allow\""),
            ("print_stdout = \"warn\"\n", ""),
            ("undocumented_unsafe_blocks = \"deny\"\n", ""),
            ("missing_docs = \"warn\"", "missing_docs = \"allow\""),
        ] {
            assert_eq!(says(&own.replace(from, to)), wrong, "{from}");
        }
        assert_eq!(says("[lints]\nworkspace = true\n"), wrong);
    }

    #[test]
    fn unsafe_is_found_even_in_macros_and_tests() {
        let text = "// unsafe\nfn f() { m!(unsafe { 1 }) }\nconst TEXT: &str = \"unsafe\";";
        let says = |path, text| lines(check_unsafe(&source(path, text)).expect("tokens"));
        let only = format!("unsafe may stand in {UNSAFE_HOME} only, and there once");
        for path in ["gateway/tests/api.rs", "engine-worker/llama/src/context.rs"] {
            assert_eq!(says(path, text), [format!("{path}:2: {only}")]);
        }
        assert_eq!(says(UNSAFE_HOME, text), [""; 0]);
        assert_eq!(
            says(UNSAFE_HOME, &[text, text].join("\n")),
            [format!("{UNSAFE_HOME}:5: {only}")]
        );
    }
}
