//! A command line that makes no sense ends with 2 before anything is sent or written.

mod support;

use support::{Bench, files, run_args};

fn refused(more: &[&str], why: &str) {
    let bench = Bench::new();
    let done = bench.loadgen(&run_args("http://127.0.0.1:1", more));
    assert_eq!(done.code, Some(2), "{more:?}: {}", done.stderr);
    assert!(done.stderr.contains(why), "{more:?}: {}", done.stderr);
    assert_eq!(files(&bench.path("")), [""; 0], "{more:?}");
}

#[test]
fn numbers_out_of_range() {
    for rate in ["0", "NaN", "inf", "1e9", "1e300", ""] {
        refused(&["--rate", rate], "--rate");
    }
    for duration in ["NaN", "1e12", "1e300"] {
        refused(&["--duration", duration], "--duration");
    }
    refused(&["--arrivals", "gamma", "--burstiness", "0"], "from 0.001 to 1000");
    refused(&["--workload", "scaled", "--scale", "1e9"], "from 0.001 to 100");
    refused(&["--url", "http://127.0.0.1:99999"], "`99999` is no port");
}

#[test]
fn options_that_would_change_nothing() {
    refused(&["--burstiness", "0.2"], "--burstiness belongs to --arrivals gamma");
    refused(&["--workload", "cadence", "--scale", "2"], "--scale belongs to --workload scaled");
    refused(&["--speed", "2"], "--speed belongs to --replay");
}
