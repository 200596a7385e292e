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
use tokio::{runtime::Runtime, signal::unix, sync::watch};

use super::{
    collect::collect,
    dispatch::{Link, dispatch},
    lag,
    options::{Options, Retries},
    outputs::make_way,
    plan::Plan,
    progress::Progress,
    request::{SHUTDOWN, Shared},
};
use crate::{
    clock::Clock,
    console,
    exit::Exit,
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
    let journal_path = record::journal_path(&out);
    let summaries: Vec<_> =
        [&options.json, &options.vllm_json].into_iter().flatten().map(PathBuf::as_path).collect();
    make_way(&out, &journal_path, &summaries, options.overwrite)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let server = runtime.block_on(options.server.connect())?;
    let clock = Clock::starting_in(LEAD);
    let provenance = provenance(options, &plan, &server, &clock);
    let journal = Journal::create(&journal_path, &provenance)?;
    let (journal, end) = measure(options, plan, server, clock, journal, runtime)?;
    let mut run = journal.finish()?;
    run.provenance.end = Some(end);
    record::store(&run, &out).with_context(|| {
        format!("what was measured is in {} (loadgen recover)", journal_path.display())
    })?;
    fs::remove_file(&journal_path)?;
    conclude(options, &out, &run)
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
        slo: options.slo.to_string(),
        retries: retries.into(),
        scheduled: plan.at.len() as u64,
        ks: plan.ks.map(|ks| (ks.distance, ks.p_value)),
        started_unix_us: clock.unix_us(),
        machine: Machine::this(),
        end: None,
    }
}

/// Sends everything and waits for everything, or until it is interrupted.
fn measure(
    options: &Options,
    plan: Plan,
    server: Server,
    clock: Clock,
    journal: Journal,
    runtime: Runtime,
) -> anyhow::Result<(Journal, End)> {
    let (stop, stopped) = watch::channel(false);
    let shared = Arc::new(Shared {
        server,
        clock,
        seed: plan.seed,
        warmup: options.warmup,
        timeout: options.timeout,
        retries: options.retries,
        ignore_eos: options.ignore_eos,
        stop: stopped,
    });
    let link = Arc::new(Link::default());
    let lag_us = Arc::new(AtomicU64::new(0));
    watch_for_interrupts(&runtime, stop, &link)?;
    let lag = Arc::clone(&lag_us);
    runtime.spawn(async move { lag::watch(&lag).await });

    let (sender, rows) = mpsc::channel();
    let progress = Progress::new(plan.duration);
    let collector = thread::spawn({
        let link = Arc::clone(&link);
        move || collect(&rows, journal, progress, &link, &clock)
    });
    let scheduled = plan.at.len() as u64;
    dispatch(&plan, &shared, &link, runtime.handle(), &sender);
    drop(sender);
    let journal = collector.join().map_err(|_| anyhow::anyhow!("the collector panicked"))?;
    let started = link.started.load(Ordering::Relaxed);
    let end = End {
        complete: started == scheduled && !*shared.stop.borrow(),
        wall_us: clock.now().0,
        worst: Worst { lag_us: lag_us.load(Ordering::Relaxed) },
    };
    runtime.shutdown_timeout(SHUTDOWN);
    Ok((journal, end))
}

/// The first interrupt ends the schedule and what is in flight; the second ends the process, and leaves
/// the journal.
fn watch_for_interrupts(
    runtime: &Runtime,
    stop: watch::Sender<bool>,
    link: &Arc<Link>,
) -> anyhow::Result<()> {
    let _guard = runtime.enter();
    let mut interrupt = unix::signal(unix::SignalKind::interrupt())?;
    let mut terminate = unix::signal(unix::SignalKind::terminate())?;
    // A file that may not grow is an error like a full disk, and no reason to die.
    drop(unix::signal(unix::SignalKind::from_raw(nix::libc::SIGXFSZ))?);
    let link = Arc::clone(link);
    runtime.spawn(async move {
        for is_second in [false, true] {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            if is_second {
                std::process::exit(130);
            }
            console::note("\nstopping: writing down what was measured");
            link.stop.store(true, Ordering::Relaxed);
            stop.send_replace(true);
        }
    });
    Ok(())
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

fn write_json(path: &Path, value: &serde_json::Value) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(value)? + "\n";
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
