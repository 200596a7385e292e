//! `loadgen simulate seed`: every rung at the loads that the seed project was measured at.

use admit::{Limits, Policy};
use clap::Args;
use sim::{Named, Request, Rung};
use units::{Micros, Span};
use workload::Arrivals;

use super::{in_parallel, world};
use crate::{console, exit::Exit};

/// The loads that arrived there, in requests a second, and what was answered within 4 s of them without
/// admission.
const LOADS: [(f64, f64); 6] =
    [(0.72, 0.69), (1.18, 1.07), (1.56, 1.23), (1.95, 1.15), (2.57, 0.72), (3.96, 0.00)];
const SLO: Span = Span::from_secs(4);
/// Requests of the first seconds are not counted.
const WARM_UP: Micros = Micros(20_000_000);
/// How long a request waits for room.
const PATIENCE: Span = Span::from_millis(500);
/// No budget is as long as a run.
const NO_BUDGET: Span = Span::from_secs(3_600);

/// Show every rung at the loads that the seed project was measured at.
///
/// Goodput is what was answered within 4 s, in requests a second, without admission, as the mean of several
/// seeds; what arrives in the first 20 s does not count.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Runs of each cell
    #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    seeds: u64,
    /// Seconds in which requests arrive
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(30..=100_000))]
    duration: u64,
}

/// A row of the table.
#[derive(Clone, Copy)]
struct Row {
    name: &'static str,
    rung: Rung,
    policy: Policy,
}

/// One run.
#[derive(Clone, Copy)]
struct Cell {
    row: Row,
    load: f64,
    seed: u64,
}

/// Runs all cells and shows the table.
///
/// # Errors
/// The loads make no schedule.
pub(super) fn run(options: &Options) -> anyhow::Result<Exit> {
    let duration = Span::from_secs(options.duration);
    let mut cells = Vec::new();
    for row in rows() {
        for (load, _) in LOADS {
            cells.extend((0..options.seeds).map(|seed| Cell { row, load, seed }));
        }
    }
    let goodputs = in_parallel(&cells, |cell| goodput(*cell, duration));
    let goodputs = goodputs.into_iter().collect::<anyhow::Result<Vec<_>>>()?;
    let per_row = LOADS.len() * usize::try_from(options.seeds)?;
    let head: Vec<String> = LOADS.iter().map(|(load, _)| format!("{load:>6.2}")).collect();
    console::say(&format!("{:<12}{}", "offered", head.join("")));
    let seed_row: Vec<String> = LOADS.iter().map(|(_, good)| format!("{good:>6.2}")).collect();
    console::say(&format!("{:<12}{}", "measured", seed_row.join("")));
    for (row, all) in rows().zip(goodputs.chunks(per_row)) {
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let seeds = all.len() / LOADS.len();
        let means: Vec<String> =
            all.chunks(seeds).map(|values| format!("{:>6.2}", mean(values))).collect();
        console::say(&format!("{:<12}{}", row.name, means.join("")));
    }
    Ok(Exit::Done)
}

/// The rungs, and the last of them with a limit on what is in the system.
fn rows() -> impl Iterator<Item = Row> {
    let plain = Rung::ALL.map(|rung| Row { name: rung.name(), rung, policy: Policy::Off });
    let limit = Policy::Limit(Limits::default());
    plain.into_iter().chain([Row { name: "limit", rung: Rung::Paged, policy: limit }])
}

fn goodput(cell: Cell, duration: Span) -> anyhow::Result<f64> {
    let Cell { row: Row { rung, policy, .. }, load, seed } = cell;
    let arrivals = Arrivals::Poisson { rate: load }.schedule(duration, seed)?;
    let settings = world::settings(policy, PATIENCE, NO_BUDGET);
    let report = sim::run(&Named::Seed.scenario(rung, settings, arrivals, seed));
    let counted: Vec<&Request> =
        report.requests.iter().filter(|request| request.intended >= WARM_UP).collect();
    let good = counted.iter().filter(|request| request.met(SLO)).count() as f64;
    // Per request, so that the luck of a schedule does not count twice.
    Ok(good / counted.len().max(1) as f64 * load)
}
