//! What `core/` may not touch: clocks, files, sockets, threads, the environment, async, ambient
//! randomness, and maps whose order changes from run to run.
//!
//! `core/clippy.toml` bans calls with types in hand; this also bans the dependencies that would bring
//! them in, and holds where clippy does not run.

use super::{Member, Violation};
use crate::{source::Source, syntax::Outline};

/// Crates that compute and do nothing else.
const PURE: [&str; 8] = [
    "libm",
    "minijinja",
    "minijinja-contrib",
    "rand",
    "rand_chacha",
    "serde",
    "serde_json",
    "thiserror",
];
/// What tests and benches of pure crates may use besides.
const TEST_TOOLS: [&str; 4] = ["allocation-counter", "criterion", "expect-test", "proptest"];

/// Paths that shipped code of `core/` must not name, and why.
const BANNED: [(&str, &str); 16] = [
    ("std::time::Instant", "core takes `now` as an argument"),
    ("std::time::SystemTime", "core takes `now` as an argument"),
    ("std::env", "core takes its settings as arguments"),
    ("std::fs", "core does no IO"),
    ("std::net", "core does no IO"),
    ("std::os", "core does no IO"),
    ("std::process", "core does no IO"),
    ("std::io", "core does no IO"),
    ("std::thread", "core starts no threads"),
    ("std::sync::mpsc", "core starts no threads"),
    ("std::collections::HashMap", "its order is random, use BTreeMap"),
    ("std::collections::HashSet", "its order is random, use BTreeSet"),
    ("std::collections::hash_map", "its order is random, use BTreeMap"),
    ("std::hash::RandomState", "core takes its generator as an argument"),
    ("rand::rng", "core takes its generator as an argument"),
    ("rand::random", "core takes its generator as an argument"),
];

/// Checks what core crates depend on.
pub(super) fn check_dependencies(members: &[Member]) -> Vec<Violation> {
    let core = members.iter().filter(|member| member.is_core());
    core.flat_map(|member| {
        let outside = member.dependencies.iter().filter(|dependency| !dependency.ours);
        let impure = outside.filter(|dependency| {
            let name = dependency.name.as_str();
            let test_tool = dependency.dev && TEST_TOOLS.contains(&name);
            !(test_tool || PURE.contains(&name))
        });
        impure.map(|dependency| {
            let message = format!("{} is not on the list of pure crates", dependency.name);
            Violation::new(&member.manifest.path, member.line_of(&dependency.name), message)
        })
    })
    .collect()
}

/// Checks one source file; files outside `core/` may do as they like.
pub(super) fn check_source(source: &Source, outline: &Outline) -> Vec<Violation> {
    if !source.path.starts_with("core/") {
        return Vec::new();
    }
    let mut found: Vec<_> = outline
        .paths
        .iter()
        .filter_map(|path| {
            let (banned, why) =
                BANNED.iter().find(|(banned, _)| starts_with(&path.name, banned))?;
            Some(Violation::new(&source.path, path.line, format!("{banned}: {why}")))
        })
        .collect();
    let asyncs = outline.asyncs.iter();
    found.extend(asyncs.map(|line| Violation::new(&source.path, *line, "core is not async")));
    found.sort();
    found.dedup();
    found
}

/// Whether `path` is `prefix` or something in it.
fn starts_with(path: &str, prefix: &str) -> bool {
    path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

#[cfg(test)]
mod tests {
    use super::{
        super::examples::{lines, member, source},
        *,
    };

    fn says(text: &str) -> Vec<String> {
        let source = source("core/kv/src/lib.rs", text);
        lines(check_source(&source, &Outline::parse(text).expect("Rust")))
    }

    #[test]
    fn pure_code_passes() {
        let text = "use std::{collections::BTreeMap, time::Duration};\nfn environment() {}\n\
                    #[cfg(test)]\nmod tests {\n    use std::fs;\n}";
        assert_eq!(says(text), [""; 0]);
    }

    #[test]
    fn each_way_to_name_a_clock_is_found() {
        let wanted = |line| {
            [format!(
                "core/kv/src/lib.rs:{line}: std::time::Instant: core takes `now` as an argument"
            )]
        };
        assert_eq!(says("use std::{fmt, time::Instant};"), wanted(1));
        assert_eq!(says("\nfn f() { std::time::Instant::now(); }"), wanted(2));
        assert_eq!(says("use std::time;\nfn f(at: time::Instant) {}"), wanted(2));
        assert_eq!(says("use std::time as t;\n\nfn f() { dbg!(t::Instant::now()) }"), wanted(3));
    }

    #[test]
    fn every_ban_bites() {
        for (banned, why) in BANNED {
            let found = says(&format!("fn f() {{ {banned}::x(); }}"));
            assert_eq!(found, [format!("core/kv/src/lib.rs:1: {banned}: {why}")]);
        }
    }

    #[test]
    fn async_is_found_in_every_form() {
        for text in [
            "async fn f() {}",
            "trait A { async fn f(); }",
            "fn f() { async {}; }",
            "fn f() { async || {}; }",
        ] {
            assert_eq!(says(text), ["core/kv/src/lib.rs:1: core is not async"], "{text}");
        }
    }

    #[test]
    fn shells_may_do_as_they_like() {
        let text = "use std::fs;\nasync fn f() {}";
        let source = source("gateway/src/lib.rs", text);
        assert_eq!(lines(check_source(&source, &Outline::parse(text).expect("Rust"))), [""; 0]);
    }

    #[test]
    fn core_depends_on_pure_crates_only() {
        let kv = member(
            "core/kv",
            "kv",
            &["thiserror", "tokio", "dev:proptest", "dev:tempfile", "proptest"],
        );
        let gateway = member("gateway", "gateway", &["tokio"]);
        assert_eq!(
            lines(check_dependencies(&[kv, gateway])),
            [
                "core/kv/Cargo.toml:3: tokio is not on the list of pure crates",
                "core/kv/Cargo.toml:5: tempfile is not on the list of pure crates",
                // Where a name stands twice, the first line is as good a pointer as any.
                "core/kv/Cargo.toml:4: proptest is not on the list of pure crates",
            ]
        );
    }
}
