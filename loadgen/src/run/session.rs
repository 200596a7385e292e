//! A run from beginning to end.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::Context as _;
use tokio::runtime::Runtime;
use units::Micros;

use super::{
    collect::collect,
    dispatch::dispatch,
    lag,
    options::{Options, Retries},
    outputs::{make_way, write_json},
    plan::Plan,
    progress::Progress,
    request::{SHUTDOWN, Shared},
};
use crate::{
    clock::Clock,
    console,
    exit::Exit,
    interrupt::Stop,
    record::{self, End, Journal, Machine, Provenance, Run, Worst},
    server::{self, Server},
    summary,
    wire::Api,
};

/// Between the last preparation and the first request.
const LEAD: Duration = Duration::from_millis(100);

/// Makes a run and says what came of it.
///
/// # Errors
/// The plan makes no sense, the server has no address or names no model, or nothing can be written.
pub(crate) fn run(options: &Options) -> anyhow::Result<Exit> {
    let plan = Plan::new(options)?;
    let out = options.out.clone().unwrap_or_else(default_out);
    let journal = record::journal_path(&out);
    let summaries: Vec<_> =
        [&options.json, &options.vllm_json].into_iter().flatten().map(PathBuf::as_path).collect();
    make_way(&out, &journal, &summaries, options.overwrite)?;
    let (runtime, server) = connect(options)?;
    let run = perform(options, plan, server, runtime, &journal, "", &Stop::listen()?)?;
    record::store(&run, &out).with_context(|| {
        format!("what was measured is in {} (loadgen recover)", journal.display())
    })?;
    fs::remove_file(&journal)?;
    conclude(options, &out, &run)
}

/// The server that `options` name, and threads to talk to it with.
///
/// # Errors
/// It has no address or names no model.
pub(crate) fn connect(options: &Options) -> anyhow::Result<(Runtime, Server)> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let server = runtime.block_on(options.server.connect())?;
    Ok((runtime, server))
}

/// Makes a run, with a new journal that stays. Lines of progress begin with `heading`.
///
/// # Errors
/// The journal cannot be written.
pub(crate) fn perform(
    options: &Options,
    plan: Plan,
    server: Server,
    runtime: Runtime,
    journal: &Path,
    heading: &str,
    stop: &Stop,
) -> anyhow::Result<Run> {
    let clock = Clock::starting_in(LEAD);
    let provenance = provenance(options, &plan, &server, &clock);
    let journal = Journal::create(journal, &provenance)?;
    let progress = Progress::new(heading.to_owned(), plan.duration);
    let shared = Arc::new(Shared {
        server,
        clock,
        seed: plan.seed,
        warmup: options.warmup,
        timeout: options.timeout,
        retries: options.retries,
        ignore_eos: options.ignore_eos,
        end: options.drain.map(|drain| Micros(plan.duration.0) + drain),
        stop: stop.clone(),
    });
    let (journal, end) = measure(&plan, &shared, runtime, journal, progress)?;
    let mut run = journal.finish()?;
    run.provenance.end = Some(end);
    Ok(run)
}

fn default_out() -> PathBuf {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("loadgen-{}.parquet", now.as_secs()).into()
}

fn provenance(options: &Options, plan: &Plan, server: &Server, clock: &Clock) -> Provenance {
    let api = match server.api {
        Api::Chat => "chat",
        Api::Completions => "completions",
    };
    let retries = match options.retries {
        Retries::None => "none",
        Retries::Sdk => "sdk",
    };
    Provenance {
        version: env!("CARGO_PKG_VERSION").into(),
        command: server::command_line(),
        url: server.client.target.to_string(),
        api: api.into(),
        model: server.model.clone(),
        arrivals: plan.arrivals.clone(),
        workload: plan.shape.name.clone(),
        rate: plan.rate,
        seed: plan.seed,
        duration_us: plan.duration.0,
        warmup_us: options.warmup.0,
        timeout_us: options.timeout.0,
        drain_us: options.drain.map(|drain| drain.0),
        slo: options.slo.to_string(),
        retries: retries.into(),
        scheduled: plan.at.len() as u64,
        ks: plan.ks.map(|ks| (ks.distance, ks.p_value)),
        started_unix_us: clock.unix_us(),
        machine: Machine::this(),
        cell: None,
        end: None,
    }
}

/// Sends everything and waits for everything, or until it is interrupted.
fn measure(
    plan: &Plan,
    shared: &Arc<Shared>,
    runtime: Runtime,
    journal: Journal,
    progress: Progress,
) -> anyhow::Result<(Journal, End)> {
    let lag_us = Arc::new(AtomicU64::new(0));
    let lag = Arc::clone(&lag_us);
    runtime.spawn(async move { lag::watch(&lag).await });

    let (sender, rows) = mpsc::channel();
    let (clock, started) = (shared.clock, Arc::new(AtomicU64::new(0)));
    let collector = thread::spawn({
        let started = Arc::clone(&started);
        move || collect(&rows, journal, progress, &started, &clock)
    });
    let scheduled = plan.at.len() as u64;
    dispatch(plan, shared, &started, runtime.handle(), &sender);
    drop(sender);
    let journal = collector.join().map_err(|_| anyhow::anyhow!("the collector panicked"))?;
    let end = End {
        complete: started.load(Ordering::Relaxed) == scheduled && !shared.stop.is_asked(),
        wall_us: clock.now().0,
        worst: Worst { lag_us: lag_us.load(Ordering::Relaxed) },
    };
    runtime.shutdown_timeout(SHUTDOWN);
    Ok((journal, end))
}

/// Summaries, from the file that was written.
fn conclude(options: &Options, out: &Path, run: &Run) -> anyhow::Result<Exit> {
    let summary = summary::Summary::of(run, &options.slo);
    console::say(&summary::text(&summary));
    console::say(&format!("rows: {}", out.display()));
    if let Some(path) = &options.json {
        write_json(path, &serde_json::to_value(&summary)?)?;
    }
    if let Some(path) = &options.vllm_json {
        write_json(path, &summary::vllm(run, &summary))?;
    }
    Ok(if !summary.complete {
        Exit::Interrupted
    } else if summary.invalid.is_some() {
        Exit::Invalid
    } else {
        Exit::Done
    })
}
