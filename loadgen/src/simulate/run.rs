//! `loadgen simulate run`.

use std::path::PathBuf;

use clap::Args;
use sim::{Clients, GatewaySpec, Report, Rung, Scenario, Wires};
use units::Span;
use workload::{Arrivals, Budgets, Ks, Slo, ks_exponential};

use super::{
    options::WorldOptions,
    rows::{self, About},
    world::{self, Made},
};
use crate::{
    console,
    exit::Exit,
    record::{self, Run},
    run::{
        Process, Retries, Shape, WorkloadOptions, budgets, burstiness, make_way, rate, seconds,
        slo, write_json,
    },
    summary,
};

/// Simulate one run, and show it as a measured one.
///
/// The scheduler, the KV core and the admission controller are the production code; what is made up is the
/// time that steps and messages take. The same options give the same run, to the last byte of its file.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    world: WorldOptions,

    /// How requests arrive
    #[arg(long, value_enum, default_value = "poisson", help_heading = "Arrivals")]
    arrivals: Process,
    /// Requests a second
    #[arg(long, value_name = "RPS", default_value_t = 1.0, value_parser = rate, help_heading = "Arrivals")]
    rate: f64,
    /// Of gamma arrivals: below 1 they come in bursts, 1 is poisson, above they become regular [default: 1]
    #[arg(long, value_name = "SHAPE", value_parser = burstiness, help_heading = "Arrivals")]
    burstiness: Option<f64>,
    /// For how many seconds requests arrive
    #[arg(long, value_name = "SECONDS", default_value = "180", value_parser = seconds, help_heading = "Arrivals")]
    duration: Span,
    /// Requests of the first seconds are not counted
    #[arg(long, value_name = "SECONDS", default_value = "0", value_parser = seconds, help_heading = "Arrivals")]
    warmup: Span,
    /// The same seed gives the same run
    #[arg(long, default_value_t = 0, help_heading = "Arrivals")]
    seed: u64,
    #[command(flatten)]
    workload: WorkloadOptions,

    /// Targets in milliseconds, as in `loadgen run`
    #[arg(long, value_name = "e2e:MS,ttft:MS,...", default_value = "", hide_default_value = true, value_parser = slo, help_heading = "Targets")]
    slo: Slo,
    /// What requests tell the server about their time
    #[arg(long, value_name = "e2e:MS,ttft:MS,patience:MS", default_value = "", hide_default_value = true, value_parser = budgets, help_heading = "Targets")]
    budget: Budgets,
    /// Whether a client tries again as OpenAI's libraries do
    #[arg(long, value_enum, default_value = "none", help_heading = "Targets")]
    retries: Retries,
    /// A client gives up so many seconds after its request had to arrive
    #[arg(long, value_name = "SECONDS", default_value = "300", value_parser = seconds, help_heading = "Targets")]
    timeout: Span,
    /// Clients do without a promise where there is none
    #[arg(long, help_heading = "Targets")]
    best_effort: bool,

    /// The Parquet file to write, a row for each request
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    out: Option<PathBuf>,
    /// Write over files
    #[arg(long, help_heading = "Output")]
    overwrite: bool,
    /// Write the summary as JSON
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    json: Option<PathBuf>,
}

impl Options {
    /// What the parser cannot know.
    ///
    /// # Errors
    /// An option that would change nothing.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        if self.burstiness.is_some() && self.arrivals != Process::Gamma {
            return Err("--burstiness belongs to --arrivals gamma");
        }
        self.workload.check()?;
        self.world.check()
    }

    fn process(&self) -> (Arrivals, String) {
        let rate = self.rate;
        let burstiness = self.burstiness.unwrap_or(1.0);
        match self.arrivals {
            Process::Poisson => (Arrivals::Poisson { rate }, "poisson".into()),
            Process::Constant => (Arrivals::Constant { rate }, "constant".into()),
            Process::Gamma => {
                let name = format!("gamma, burstiness {burstiness}");
                (Arrivals::Gamma { rate, burstiness }, name)
            }
        }
    }
}

/// What a run is made of.
struct Plan {
    scenario: Scenario,
    about: About,
}

/// Simulates a run and says what came of it.
///
/// # Errors
/// The options make no run, or a file cannot be read or written.
pub(super) fn run(options: &Options) -> anyhow::Result<Exit> {
    if let Some(out) = &options.out {
        let json: Vec<_> = options.json.iter().map(PathBuf::as_path).collect();
        make_way(out, &record::journal_path(out), &json, options.overwrite)?;
    }
    let Plan { scenario, about } = plan(options)?;
    let report = sim::run(&scenario);
    let run = rows::measured(&report, about);
    if let Some(out) = &options.out {
        record::store(&run, out)?;
    }
    conclude(options, &report, &run)
}

fn plan(options: &Options) -> anyhow::Result<Plan> {
    let (process, arrivals) = options.process();
    let at = process.schedule(options.duration, options.seed)?;
    anyhow::ensure!(!at.is_empty(), "the schedule is empty: raise the duration or the rate");
    let shape = Shape::new(&options.workload)?;
    let ks = match options.arrivals {
        Process::Poisson => ks_exponential(&at, options.rate),
        Process::Constant | Process::Gamma => None,
    };
    let Made { machine, name } = world::machine(&options.world)?;
    let rung = world::rung(options.world.rung);
    let policy = world::policy(&options.world);
    let about = about(options, &shape, (arrivals, ks), (rung, policy, name));
    let engines = usize::from(options.world.engines);
    let scenario = Scenario {
        seed: options.seed,
        engines: vec![machine.at(rung); engines],
        admission: world::settings(policy, options.world.patience(), options.world.budget()),
        gateway: GatewaySpec::default(),
        clients: Clients {
            arrivals: at,
            source: shape.source,
            seed: options.seed,
            max_tokens: options.workload.max_tokens,
            natural: options.world.answers.clone(),
            budgets: options.budget,
            accept_best_effort: options.best_effort,
            timeout: options.timeout,
            retries: options.retries == Retries::Sdk,
            leaving: Vec::new(),
        },
        wires: Wires::local(),
        faults: Vec::new(),
    };
    Ok(Plan { scenario, about })
}

fn about(
    options: &Options,
    shape: &Shape,
    (arrivals, ks): (String, Option<Ks>),
    (rung, policy, world): (Rung, admit::Policy, String),
) -> About {
    About {
        place: format!("simulated: {}, {}", rung.name(), policy.name()),
        model: world,
        command: vec!["loadgen".into(), "simulate".into(), "run".into()],
        arrivals,
        workload: shape.name.clone(),
        rate: Some(options.rate),
        seed: options.seed,
        duration: options.duration,
        warmup: options.warmup,
        timeout: options.timeout,
        slo: options.slo.to_string(),
        retries: match options.retries {
            Retries::None => "none",
            Retries::Sdk => "sdk",
        },
        ks: ks.map(|ks| (ks.distance, ks.p_value)),
    }
}

fn conclude(options: &Options, report: &Report, run: &Run) -> anyhow::Result<Exit> {
    let summary = summary::Summary::of(run, &options.slo);
    console::say(&summary::text(&summary));
    let (steps, until) = (report.steps, report.ended_at.0 as f64 / 1e6);
    console::say(&format!("simulated   {steps} steps, {until:.1} s, digest {}", report.digest));
    if let Some(out) = &options.out {
        console::say(&format!("rows: {}", out.display()));
    }
    if let Some(path) = &options.json {
        write_json(path, &serde_json::to_value(&summary)?)?;
    }
    for finding in &report.findings {
        console::say(&format!("FINDING: {finding}"));
    }
    Ok(if report.findings.is_empty() { Exit::Done } else { Exit::Failed })
}
