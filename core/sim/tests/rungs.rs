//! Every rung runs, to the same end each time.

use admit::{Limits, Policy, Settings};
use sim::{Named, Report, Rung, run};
use units::Span;
use workload::Arrivals;

fn settings(policy: Policy) -> Settings {
    Settings {
        policy,
        lease: Span::from_millis(1_500),
        patience: Span::from_millis(500),
        budget: Span::from_secs(3_600),
        held_max: 256,
        standalone_max: 0,
    }
}

fn report(rung: Rung, policy: Policy, rate: f64, seed: u64) -> Report {
    let arrivals = Arrivals::Poisson { rate }.schedule(Span::from_secs(60), seed).expect("a rate");
    run(&Named::Seed.scenario(rung, settings(policy), arrivals, seed))
}

#[test]
fn every_rung_serves_everybody_and_the_auditor_has_nothing_to_say() {
    for rung in Rung::ALL {
        let report = report(rung, Policy::Off, 0.7, 1);
        assert_eq!(report.findings, [], "{}", rung.name());
        let ok = report.requests.iter().filter(|it| it.ending == sim::Ending::Ok).count();
        assert_eq!(ok, report.requests.len(), "{}", rung.name());
    }
}

/// VT-1.
#[test]
fn the_same_seed_gives_the_same_run() {
    let limit = Policy::Limit(Limits::default());
    let one = report(Rung::Paged, limit, 3.0, 7);
    assert_eq!(one, report(Rung::Paged, limit, 3.0, 7));
    assert_ne!(one.digest, report(Rung::Paged, limit, 3.0, 8).digest);
}

#[test]
fn a_limit_refuses_what_does_not_fit() {
    let limit = Policy::Limit(Limits { requests: 6, ..Limits::default() });
    let report = report(Rung::Paged, limit, 6.0, 3);
    assert_eq!(report.findings, []);
    let shed = report.requests.iter().filter(|it| it.ending == sim::Ending::Shed).count();
    assert!(shed > report.requests.len() / 3, "{shed} of {}", report.requests.len());
}
