//! Worlds as they are break no rule; worlds with a bug do, and soon.

use super::draw;
use crate::{
    Rule,
    planted::{Planted, tests::Bug},
    run,
    world::run_planted,
};

/// Worlds in which a bug has to show.
const SEEDS: u64 = 100;

/// VT-3.
fn is_found(bug: Bug, rule: Rule) -> bool {
    (0..SEEDS).any(|seed| {
        let report = run_planted(&draw(seed), Planted::with(bug));
        report.findings.iter().any(|finding| finding.rule == rule)
    })
}

#[test]
fn a_release_that_is_skipped_is_found() {
    assert!(is_found(Bug::ReleaseSkipped, Rule::Blocks));
}

#[test]
fn a_deadline_that_is_ignored_is_found() {
    assert!(is_found(Bug::DeadlineIgnored, Rule::Deadlines));
}

#[test]
fn a_wake_up_that_is_lost_is_found() {
    assert!(is_found(Bug::WakeUpLost, Rule::Patience));
}

/// VT-2.
#[test]
fn worlds_without_bugs_break_no_rule() {
    for seed in 0..SEEDS {
        assert_eq!(run(&draw(seed)).findings, [], "seed {seed}");
    }
}
