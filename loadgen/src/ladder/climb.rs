//! Measures the cells that are missing, in order. Knows nothing of how a cell is measured.

use units::Span;

use super::{
    cell::{self, Cell},
    plan::Plan,
    progress::Progress,
    store::{State, Store},
};
use crate::{
    console,
    exit::Exit,
    interrupt::Stop,
    record::{self, End, Machine, Origin, Provenance, Run},
    run::{Retries, Shape, WorkloadOptions},
    summary::{self, Summary},
};

/// Whatever can measure a cell: a machine with processes, or a simulation.
pub(crate) trait Runner {
    /// What is measured, the same for all cells.
    fn origin(&self) -> &Origin;

    /// Where it is measured.
    fn machine(&self) -> Machine {
        Machine::this()
    }

    /// Measures one cell. Lines of progress begin with `heading`.
    ///
    /// # Errors
    /// There are no rows, and why.
    fn run(&mut self, task: &Task<'_>) -> anyhow::Result<Measured>;
}

/// What a runner is asked for.
pub(crate) struct Task<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) cell: &'a Cell<'a>,
    pub(crate) store: &'a Store,
    pub(crate) stop: &'a Stop,
    /// What lines of progress begin with.
    pub(crate) heading: String,
}

/// What it found.
pub(crate) struct Measured {
    /// Its provenance has no cell yet.
    pub(crate) run: Run,
    pub(crate) probes: Vec<record::Probe>,
    /// The settings of each process, in its own words.
    pub(crate) settings: std::collections::BTreeMap<String, String>,
}

/// How much one call measures.
#[derive(Clone, Copy)]
pub(crate) struct Portion {
    /// Spoiled cells are tried again until so many attempts came to nothing.
    pub(crate) attempts: u32,
    /// Cells at most; none is no limit.
    pub(crate) cells: Option<u32>,
}

/// Measures what is missing, or a portion of it.
///
/// # Errors
/// The folder cannot be written, or has cells of something else.
pub(crate) fn climb(
    plan: &Plan,
    store: &Store,
    runner: &mut dyn Runner,
    portion: Portion,
    stop: &Stop,
) -> anyhow::Result<Exit> {
    store.check(&plan.digest(), runner.origin(), &runner.machine())?;
    let cells = cell::order(plan);
    let is_open = |cell: &&Cell<'_>| store.state(&cell.name()) != State::Done;
    let mut open: Vec<_> = cells.iter().filter(is_open).collect();
    let mut progress = Progress::new(plan);
    let mut more = portion.cells.unwrap_or(u32::MAX);
    for attempt in 0..portion.attempts {
        let left = progress.pass(open.len());
        console::say(&opening(attempt, cells.len(), open.len(), &left));
        for cell in &open {
            let Some(rest) = more.checked_sub(1) else {
                console::say("that many were asked for: the same command goes on from here");
                return Ok(Exit::Interrupted);
            };
            more = rest;
            let heading = progress.begin(&cell.name());
            let task = Task { plan, cell, store, stop, heading };
            let Some(line) = measure(&task, runner)? else {
                console::say("stopped: the same command goes on from here");
                return Ok(Exit::Interrupted);
            };
            progress.end();
            console::say(&format!("{}: {line}", cell.name()));
        }
        open.retain(is_open);
        if open.is_empty() {
            break;
        }
    }
    Ok(conclude(&open, cells.len()))
}

fn opening(attempt: u32, all: usize, open: usize, left: &str) -> String {
    match (attempt, all - open) {
        (0, 0) => format!("{all} cells: about {left}"),
        (0, done) => format!("{done} of {all} cells are there, {open} to go: about {left}"),
        (_, _) => format!("{open} cells came to nothing, once more: about {left}"),
    }
}

fn conclude(open: &[&Cell<'_>], all: usize) -> Exit {
    if open.is_empty() {
        console::say(&format!("all {all} cells are measured"));
        return Exit::Done;
    }
    let names: Vec<_> = open.iter().map(|cell| cell.name()).collect();
    console::say(&format!("{} of {all} cells came to nothing: {}", open.len(), names.join(", ")));
    Exit::Failed
}

/// Measures a cell and keeps it, whatever came of it; a line that says what. Absent if it was interrupted.
fn measure(task: &Task<'_>, runner: &mut dyn Runner) -> anyhow::Result<Option<String>> {
    let name = task.cell.name();
    if task.stop.is_asked() {
        return Ok(None);
    }
    let attempt = match task.store.state(&name) {
        State::Missing | State::Done => 1,
        State::Spoiled(attempts) => attempts + 1,
    };
    let measured = runner.run(task);
    if task.stop.is_asked() {
        // Half a cell is none.
        task.store.forget(&name)?;
        return Ok(None);
    }
    let mut facts = facts(task, runner.origin().clone(), attempt);
    let (run, line) = match measured {
        Ok(measured) => {
            let mut run = measured.run;
            let slo = task.plan.slo.parse()?;
            let summary = Summary::of(&run, &slo);
            facts.probes = measured.probes;
            facts.settings = measured.settings;
            facts.invalid = summary.invalid.clone();
            run.provenance.command = command();
            run.provenance.cell = Some(Box::new(facts));
            (run, in_a_line(&summary))
        }
        Err(error) => {
            let why = format!("{error:#}");
            facts.failed = Some(why.clone());
            (empty(task.plan, task.cell, facts, runner.machine())?, format!("FAILED: {why}"))
        }
    };
    task.store.put(&name, &run)?;
    Ok(Some(line))
}

fn facts(task: &Task<'_>, origin: Origin, attempt: u32) -> record::Cell {
    let (plan, cell) = (task.plan, task.cell);
    record::Cell {
        ladder: plan.name.clone(),
        plan: plan.digest(),
        rung: cell.rung.name.clone(),
        title: cell.rung.title.clone(),
        adds: cell.rung.adds.clone(),
        place: cell.place,
        against: plan.against(cell.place).map(Into::into),
        replicate: cell.replicate,
        number: cell.number,
        attempt,
        failed: None,
        invalid: None,
        origin,
        settings: Default::default(),
        probes: Vec::new(),
    }
}

/// The command line would have the paths of this machine in it, which say nothing that the cell does not.
fn command() -> Vec<String> {
    ["loadgen", "ladder"].map(Into::into).into()
}

fn in_a_line(summary: &Summary) -> String {
    let goodput = summary.goodput_rps.unwrap_or(0.0);
    let p99 = summary.e2e_ms.map_or("-".into(), |of| format!("{:.2} s", of.p99 / 1e3));
    let caveat = summary.invalid.as_ref().map(|why| format!("; INVALID: {why}"));
    format!(
        "goodput {goodput:.3} of {:.3} rps, E2E p99 {p99}, shed {} %{}",
        summary.offered_rps,
        summary::tenths(summary.shed_share * 100.0),
        caveat.unwrap_or_default()
    )
}

/// What stands for a cell that has no rows.
fn empty(
    plan: &Plan,
    cell: &Cell<'_>,
    facts: record::Cell,
    machine: Machine,
) -> anyhow::Result<Run> {
    let micros = |secs: f64| Span::from_secs_f64(secs).0;
    let provenance = Provenance {
        version: env!("CARGO_PKG_VERSION").into(),
        command: command(),
        url: String::new(),
        api: "chat".into(),
        model: String::new(),
        arrivals: "poisson".into(),
        workload: Shape::new(&workload(plan))?.name,
        rate: Some(cell.rate),
        seed: cell.seed,
        duration_us: micros(plan.duration_s),
        warmup_us: micros(plan.warmup_s),
        timeout_us: micros(plan.timeout_s),
        drain_us: Some(micros(plan.drain_s)),
        slo: plan.slo.clone(),
        retries: match plan.retries {
            Retries::None => "none".into(),
            Retries::Sdk => "sdk".into(),
        },
        scheduled: 0,
        ks: None,
        started_unix_us: 0,
        machine,
        cell: Some(Box::new(facts)),
        end: Some(End { complete: false, wall_us: 0, worst: record::Worst::default() }),
    };
    Ok(Run { provenance, rows: Vec::new() })
}

/// What the plan asks, as `loadgen run` is told.
pub(crate) fn workload(plan: &Plan) -> WorkloadOptions {
    WorkloadOptions {
        workload: plan.workload,
        scale: plan.scale,
        prompts: None,
        max_tokens: plan.max_tokens,
    }
}
