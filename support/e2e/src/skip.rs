//! Tests that a machine cannot run.

use std::io::{self, Write as _};

/// Says on the standard error, past the test harness, that something was not tried, and why. Such lines are
/// listed at the end of a run.
pub fn skipped(what: &str) {
    // `eprintln!` is kept from sight for a test that passes.
    let _ = writeln!(io::stderr(), "SKIPPED {what}");
}
