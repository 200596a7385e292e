//! A run for tests.

use super::{Cell, End, Machine, Origin, Provenance, Row, Run, Worst};

/// A whole run with `rows`.
pub(crate) fn example(rows: Vec<Row>) -> Run {
    let provenance = Provenance {
        version: "1".into(),
        command: vec!["loadgen".into()],
        url: "http://localhost/v1".into(),
        api: "chat".into(),
        model: "m".into(),
        arrivals: "poisson".into(),
        workload: "cadence".into(),
        rate: Some(1.4),
        seed: 3,
        duration_us: 1,
        warmup_us: 0,
        timeout_us: 1,
        drain_us: None,
        slo: "e2e:4000".into(),
        retries: "none".into(),
        scheduled: 2,
        ks: Some((0.1, 0.5)),
        started_unix_us: 1,
        machine: Machine::this(),
        cell: None,
        end: Some(End { complete: true, wall_us: 5, worst: Worst::default() }),
    };
    Run { provenance, rows }
}

/// A row about which nothing is known.
pub(crate) const fn example_row() -> Row {
    Row::blank()
}

/// A cell for tests.
pub(crate) fn cell_example() -> Cell {
    Cell {
        ladder: "example".into(),
        plan: "0".into(),
        rung: "one".into(),
        title: "the first".into(),
        adds: "the baseline".into(),
        place: 0,
        against: None,
        replicate: 0,
        number: 0,
        attempt: 1,
        failed: None,
        invalid: None,
        origin: Origin::default(),
        settings: Default::default(),
        probes: Vec::new(),
    }
}
