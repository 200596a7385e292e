//! `loadgen simulate oracle`: what could be had at most, and by whom.

use clap::Args;
use sim::{Machine, Named, Natural, Request, Rung, Scenario, oracle};
use units::Span;
use workload::{Arrivals, Slo};

use super::{options::WorldName, world};
use crate::{console, exit::Exit};

/// No budget is as long as a run.
const NO_BUDGET: Span = Span::from_secs(3_600);
/// Of those who are let in, those who may be late, for the floor of refusals.
const ALPHA: f64 = 0.05;

/// Show what could be had at most, and by whom, at one load of a world.
///
/// The clairvoyant schedule knows lengths, arrivals and noise; every set that it accepts was simulated. The
/// bounds are arithmetic on the machine without noise.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Which machine and traffic
    #[arg(long, value_enum, default_value = "seed")]
    world: WorldName,
    /// Requests a second
    #[arg(long, value_name = "RPS", default_value_t = 2.0, value_parser = crate::run::rate)]
    rate: f64,
    /// For how many seconds requests arrive
    #[arg(long, value_name = "SECONDS", default_value = "180", value_parser = crate::run::seconds)]
    duration: Span,
    /// The same seed gives the same run
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// The target; only e2e counts
    #[arg(long, value_name = "e2e:MS", default_value = "e2e:4000", value_parser = crate::run::slo)]
    slo: Slo,
    /// Rounds of search for better sets
    #[arg(long, default_value_t = 50)]
    rounds: u32,
}

/// Computes and shows them.
///
/// # Errors
/// The options make no run.
pub(super) fn run(options: &Options) -> anyhow::Result<Exit> {
    let slo = options.slo.e2e.ok_or_else(|| anyhow::anyhow!("--slo needs e2e"))?;
    let named = world::named(options.world);
    let arrivals =
        Arrivals::Poisson { rate: options.rate }.schedule(options.duration, options.seed)?;
    anyhow::ensure!(!arrivals.is_empty(), "the schedule is empty: raise the duration or the rate");
    let settings = world::settings(admit::Policy::Off, Span::ZERO, NO_BUDGET);
    let scenario = named.scenario(Rung::Paged, settings, arrivals, options.seed);
    show(options, named, &scenario, slo);
    Ok(Exit::Done)
}

fn show(options: &Options, named: Named, scenario: &Scenario, slo: Span) {
    let requests = scenario.clients.arrivals.len();
    let report = sim::run(scenario);
    let met = |request: &&Request| request.met(slo);
    let plain = report.requests.iter().filter(met).count();
    let seen = oracle::clairvoyant(scenario, slo, options.rounds);
    let Machine { limits, truth, .. } = named.machine();
    let price = oracle::Price::new(&truth.cost, limits.slots);
    let jobs = oracle::jobs(scenario);
    // Who arrives last may be answered after the last arrival.
    let time = options.duration + slo;
    let lp = oracle::lp(&jobs, &price, slo, time);
    let fluid = oracle::fluid(&jobs, &price, slo, time);
    let secs = options.duration.as_secs_f64();
    let line = |name: &str, count: f64, what: &str| {
        console::say(&format!("{name:<20}{:>8.1}{:>8.3}  {what}", count, count / secs));
    };
    console::say("                       count     rps");
    line("arrived", requests as f64, "");
    line("without admission", plain as f64, "in time, everybody let in");
    line("clairvoyant", seen.accepted.len() as f64, "can be had: verified by simulation");
    line("fluid bound", fluid, "at most, but for luck");
    line("lp bound", lp, "at most");
    if let Natural::Drawn(law) = named.natural() {
        let blind = oracle::blind(&jobs, &price, slo, time, &law);
        line("blind bound", blind, "at most, but for luck, without knowing lengths");
        let ceiling = oracle::blind_ceiling(blind, seen.accepted.len() as f64, fluid);
        line("blind ceiling", ceiling, "an estimate of what can be had without knowing lengths");
    }
    let missed = 1.0 - plain as f64 / requests as f64;
    let floor = oracle::refusal_floor(missed, ALPHA) * 100.0;
    console::say(&format!(
        "refusals: {floor:.1} % at least, if {:.0} % of those let in may be late; {} simulations",
        ALPHA * 100.0,
        seen.simulations
    ));
}
