//! Which crate may use which.
//!
//! The table is complete: a crate without a row, or an edge that is not in its row, is a violation, so
//! a new edge is a decision that a reviewer sees here.

use super::{Member, Violation};

/// A crate, and every crate of the workspace that it may name.
type Row = (&'static str, &'static [&'static str]);

const ROWS: [Row; 19] = [
    // The pure core. The step planner in `sched` is shared: admission simulates with it.
    ("units", &[]),
    ("kv", &["units"]),
    ("sample", &["units"]),
    ("text", &["units"]),
    ("sched", &["kv", "sample", "units"]),
    // Its tests run the scheduler that it foresees, over an engine of their own.
    ("admit", &["kv", "sample", "sched", "units"]),
    ("workload", &["units"]),
    // Everything pure together, in virtual time.
    ("sim", &["admit", "kv", "sample", "sched", "units", "workload"]),
    // Wire types and the shell that services share.
    ("proto", &[]),
    ("service", &["proto", "units"]),
    ("ports", &[]),
    // The three services. Only admission decides, only the engine schedules, the gateway sees neither.
    ("gateway", &["proto", "service", "units"]),
    ("admission-svc", &["admit", "ports", "proto", "service", "units"]),
    (
        "engine-worker",
        &["kv", "llama", "ports", "proto", "sample", "sched", "service", "text", "units"],
    ),
    ("llama", &["kv", "sample", "sched", "text", "units"]),
    // The load generator is a product of its own: it knows no service, only the pure core that it simulates.
    ("loadgen", &["admit", "ports", "sched", "sim", "units", "workload"]),
    // Tools and tests: nothing depends on these.
    ("e2e", &["admission-svc", "engine-worker", "gateway", "ports", "proto", "service", "units"]),
    ("up", &["ports"]),
    ("xtask", &[]),
];

/// The one crate that knows llama.cpp, and what only it may use.
const LLAMA: &str = "llama";
const LLAMA_ONLY: [&str; 2] = ["llama-cpp-2", "llama-cpp-sys-2"];

/// Checks every direct dependency, those of tests included.
pub(super) fn check(members: &[Member]) -> Vec<Violation> {
    members.iter().flat_map(check_member).collect()
}

fn check_member(member: &Member) -> Vec<Violation> {
    let manifest = &member.manifest.path;
    let Some((name, allowed)) = ROWS.iter().find(|(name, _)| *name == member.name) else {
        let message = format!("{} has no row in the table of dependencies", member.name);
        return vec![Violation::new(manifest, 1, message)];
    };
    let refused = member.dependencies.iter().filter(|dependency| {
        let other = dependency.name.as_str();
        let ours = dependency.ours && !allowed.contains(&other);
        ours || LLAMA_ONLY.contains(&other) && *name != LLAMA
    });
    refused
        .map(|dependency| {
            let other = &dependency.name;
            let message = format!("{name} must not depend on {other}");
            Violation::new(manifest, member.line_of(other), message)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{
        super::examples::{lines, member},
        *,
    };

    #[test]
    fn edges_of_the_table_pass() {
        let members = [
            member("core/sched", "sched", &["ours:kv", "ours:units", "thiserror", "dev:proptest"]),
            member("engine-worker/llama", "llama", &["ours:sched", "llama-cpp-2"]),
        ];
        assert_eq!(lines(check(&members)), [""; 0]);
    }

    #[test]
    fn an_edge_outside_the_table_is_named() {
        let gateway = member("gateway", "gateway", &["ours:units", "ours:sched"]);
        assert_eq!(
            lines(check(&[gateway])),
            ["gateway/Cargo.toml:3: gateway must not depend on sched"]
        );
    }

    #[test]
    fn tests_may_not_cross_either() {
        let units = member("core/units", "units", &["dev:ours:kv"]);
        assert_eq!(
            lines(check(&[units])),
            ["core/units/Cargo.toml:2: units must not depend on kv"]
        );
    }

    #[test]
    fn only_one_crate_knows_llama_cpp() {
        let engine = member("engine-worker", "engine-worker", &["llama-cpp-sys-2"]);
        assert_eq!(
            lines(check(&[engine])),
            ["engine-worker/Cargo.toml:2: engine-worker must not depend on llama-cpp-sys-2"]
        );
    }

    #[test]
    fn nothing_depends_on_tools_and_tests() {
        for (name, allowed) in ROWS {
            for tool in ["e2e", "up", "xtask"] {
                assert!(!allowed.contains(&tool), "{name} may use {tool}");
            }
        }
    }

    #[test]
    fn a_new_crate_needs_a_row() {
        let found = lines(check(&[member("core/new", "new", &[])]));
        assert_eq!(found, ["core/new/Cargo.toml:1: new has no row in the table of dependencies"]);
    }
}
