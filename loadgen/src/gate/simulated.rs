//! The gate in virtual time.

use admit::{Limits, Policy};
use sched::Rules;
use sim::{Ending, Named, Report, Rung};
use units::Span;
use workload::{Arrivals, Slo};

use super::budget::{Figures, Section};
use crate::{
    simulate::{in_parallel, settings},
    summary::quantile,
};

/// One run.
#[derive(Clone, Copy)]
struct Cell {
    rate: f64,
    seed: u64,
}

/// What the service does at the loads of a section, `slots` at once where that is said.
///
/// # Errors
/// The section makes no runs, or the auditor found something in one: then it says nothing.
pub(super) fn measure(section: &Section, slots: Option<u32>) -> anyhow::Result<Vec<Figures>> {
    let slo: Slo = section.slo.parse()?;
    let target = slo.e2e.ok_or_else(|| anyhow::anyhow!("the target has no e2e"))?;
    let duration = Span::from_secs(section.duration_s.into());
    let seeds = 0..u64::from(section.seeds);
    let rates = section.loads.iter().map(|load| load.rate);
    let cells: Vec<Cell> =
        rates.flat_map(|rate| seeds.clone().map(move |seed| Cell { rate, seed })).collect();
    let reports = in_parallel(&cells, |cell| simulate(*cell, duration, slots));
    let reports = reports.into_iter().collect::<anyhow::Result<Vec<_>>>()?;
    if let Some(finding) = reports.iter().flat_map(|report| &report.findings).next() {
        anyhow::bail!("a run broke a rule: {finding}");
    }
    let window = duration.as_secs_f64() * f64::from(section.seeds);
    let per_load = reports.chunks(seeds.count());
    Ok(section
        .loads
        .iter()
        .zip(per_load)
        .map(|(load, reports)| figures(load.rate, reports, target, window))
        .collect())
}

fn simulate(cell: Cell, duration: Span, slots: Option<u32>) -> anyhow::Result<Report> {
    let Cell { rate, seed } = cell;
    let arrivals = Arrivals::Poisson { rate }.schedule(duration, seed)?;
    let admission =
        settings(Policy::Limit(Limits::default()), Span::from_millis(500), Span::from_secs(60));
    let mut scenario = Named::Seed.scenario(Rung::Paged, admission, arrivals, seed);
    // A machine on which batches matter, by the rules that are this project's defaults.
    let limits = &mut scenario.engines[0].limits;
    limits.rules = Rules { itl: Some(Span::from_millis(200)), ..Rules::default() };
    limits.step = Span::from_millis(500);
    limits.slots = slots.unwrap_or(limits.slots);
    Ok(sim::run(&scenario))
}

fn figures(rate: f64, reports: &[Report], target: Span, window: f64) -> Figures {
    let requests = || reports.iter().flat_map(|report| &report.requests);
    let good = requests().filter(|request| request.met(target)).count();
    let ok = requests().filter(|request| request.ending == Ending::Ok);
    let mut e2e: Vec<f64> = ok.map(|request| request.e2e().as_secs_f64() * 1e3).collect();
    e2e.sort_by(f64::total_cmp);
    // Where nothing was answered, nothing was answered in time.
    let p99 = if e2e.is_empty() { f64::INFINITY } else { quantile(&e2e, 0.99) };
    let rounded = |value: f64, digits: f64| (value * digits).round() / digits;
    Figures { rate, goodput_rps: rounded(good as f64 / window, 1e6), p99_ms: rounded(p99, 1e3) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::{budget::Budget, judge::worse};

    fn judged(slots: Option<u32>) -> Vec<String> {
        let budget = Budget::parse(include_str!("../../gate.toml")).unwrap().simulated;
        let measured = measure(&budget, slots).unwrap();
        budget.loads.iter().zip(&measured).flat_map(|(budget, it)| worse(budget, it)).collect()
    }

    #[test]
    fn the_gate_is_open() {
        assert_eq!(judged(None), [""; 0]);
    }

    #[test]
    fn one_at_a_time_shuts_it() {
        assert!(!judged(Some(1)).is_empty());
    }
}
