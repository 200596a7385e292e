//! `loadgen drain-check`: a server that is told to stop finishes its streams, or ends them in band, turns
//! late arrivals away politely, and goes.

use std::{path::Path, sync::Arc, time::Duration};

use anyhow::Context as _;
use nix::{
    errno::Errno,
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tokio::{
    sync::mpsc,
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};
use units::{Micros, TokenCount};
use workload::{Ask, Budgets, Content, Passage, Prompt, Style};

use crate::{
    clock::Clock,
    console,
    exit::Exit,
    server::{Access, Server},
    wire::{Class, Failure, Trail},
};

const POLL: Duration = Duration::from_millis(20);
/// How long readiness may stay after the signal.
const READY_GONE: Duration = Duration::from_secs(2);

/// Check that a server ends its streams well when it is told to stop.
///
/// Starts streams, waits until all of them have their first token, sends SIGTERM, and then asserts: each
/// stream ends whole or with an error in band; readiness goes at once; a late request hears 503 with
/// Retry-After, or finds nobody; the process is gone in time. Fails if nothing was in flight, because then
/// it would have shown nothing.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    server: Access,
    /// The process that gets SIGTERM
    // Less than 1 would be a group of processes, or all of them.
    #[arg(long, value_parser = clap::value_parser!(i32).range(1..))]
    pid: i32,
    /// Streams in flight
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    streams: u32,
    /// Cap on each answer: long enough that it is still being made when the signal comes
    #[arg(long, value_name = "TOKENS", default_value_t = 256)]
    max_tokens: u32,
    /// Where readiness is told; it is looked at if it says 200 before the signal
    #[arg(long, value_name = "PATH", default_value = "/ready")]
    ready_path: String,
    /// The process must be gone after so many seconds; streams have as long to begin, and as long to end
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    within: u64,
}

/// Checks one by one, and whether all of them held.
struct Report {
    holds: bool,
}

impl Report {
    fn check(&mut self, holds: bool, what: &str) {
        self.holds &= holds;
        console::say(&format!("{} {what}", if holds { "ok  " } else { "FAIL" }));
    }
}

/// Runs the check.
///
/// # Errors
/// It cannot be made: the server cannot be asked, or the process not be signalled.
pub(crate) fn run(options: Options) -> anyhow::Result<Exit> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let report = runtime.block_on(check(options))?;
    Ok(if report.holds { Exit::Done } else { Exit::Failed })
}

async fn check(options: Options) -> anyhow::Result<Report> {
    let server = Arc::new(options.server.connect().await?);
    let clock = Clock::starting_in(Duration::ZERO);
    let was_ready = ready(&server, &options.ready_path).await == Some(200);
    let (heard, mut first_tokens) = mpsc::unbounded_channel();
    let streams: Vec<_> =
        (0..options.streams).map(|index| start(&server, clock, index, &options, &heard)).collect();
    drop(heard);
    let all_speak = async {
        for _ in 0..options.streams {
            first_tokens.recv().await?;
        }
        Some(())
    };
    // Where not all speak, the report says how many did.
    let _ = timeout(Duration::from_secs(options.within), all_speak).await;

    let pid = Pid::from_raw(options.pid);
    let signalled = clock.now();
    kill(pid, Signal::SIGTERM).with_context(|| format!("cannot signal process {pid}"))?;
    let mut report = Report { holds: true };
    if was_ready {
        let gone = readiness_goes(&server, &options.ready_path).await;
        report.check(gone, "readiness went within 2 s of the signal");
    }
    late_arrival(&mut report, &server, clock, options.within).await;
    judge_streams(&mut report, streams, signalled).await?;
    let gone = wait_for_end(pid, Duration::from_secs(options.within)).await;
    report.check(gone, &format!("process {pid} ended within {} s", options.within));
    Ok(report)
}

type Stream = JoinHandle<(Trail, Result<(), Failure>)>;

fn start(
    server: &Arc<Server>,
    clock: Clock,
    index: u32,
    options: &Options,
    heard: &mpsc::UnboundedSender<()>,
) -> Stream {
    let mut call = server.call(&question(u64::from(index), options.max_tokens), true);
    call.on_first_token = Some(heard.clone());
    // Once before the signal, and once after it.
    let within = 2 * options.within;
    let server = Arc::clone(server);
    tokio::spawn(async move {
        let mut trail = Trail::default();
        let ended = server.client.perform_within(within, &call, &clock, &mut trail).await;
        (trail, ended)
    })
}

fn question(id: u64, max_tokens: u32) -> Ask {
    let passage = Passage { id, style: Style::Question, tokens: TokenCount(24) };
    Ask {
        prompt: Prompt::user(Content::Made(vec![passage])),
        max_tokens: TokenCount(max_tokens),
        budgets: Budgets::default(),
    }
}

async fn ready(server: &Server, path: &str) -> Option<u16> {
    let asked = server.client.get(server.client.target.beside(path), server.headers.clone());
    timeout(READY_GONE, asked).await.ok()?.ok().map(|(status, _, _)| status)
}

async fn readiness_goes(server: &Server, path: &str) -> bool {
    let until = Instant::now() + READY_GONE;
    while Instant::now() < until {
        if ready(server, path).await != Some(200) {
            return true;
        }
        sleep(POLL).await;
    }
    false
}

async fn late_arrival(report: &mut Report, server: &Server, clock: Clock, within: u64) {
    let mut trail = Trail::default();
    let call = server.call(&question(u64::MAX, 1), false);
    match server.client.perform_within(within, &call, &clock, &mut trail).await {
        Ok(()) => report.check(false, "a late request was turned away: it was served"),
        Err(failure) if failure.class == Class::Shed => {
            let says_when = trail.headers.contains_key("retry-after");
            report.check(says_when, "a late request was turned away, with Retry-After");
        }
        Err(failure) => {
            let nobody = matches!(failure.class, Class::Connect | Class::Truncated);
            report.check(nobody, &format!("a late request was turned away: {failure}"));
        }
    }
}

async fn judge_streams(
    report: &mut Report,
    streams: Vec<Stream>,
    signalled: Micros,
) -> anyhow::Result<()> {
    let (mut in_flight, mut whole, mut in_band, mut broken) = (0, 0, 0, Vec::new());
    for stream in streams {
        let (trail, ended) = stream.await?;
        let spoke = trail.first_token.is_some_and(|first| first < signalled);
        // Or else all had been said, and the signal interrupted nothing.
        let goes_on = trail.last_token.is_some_and(|last| last > signalled) || ended.is_err();
        in_flight += u32::from(spoke && goes_on);
        match ended {
            Ok(()) => whole += 1,
            Err(failure) if failure.class == Class::InBandError => in_band += 1,
            Err(failure) => broken.push(failure.to_string()),
        }
    }
    report.check(in_flight > 0, &format!("{in_flight} streams were in flight at the signal"));
    let ends = format!("{whole} streams ended whole, {in_band} with an error in band");
    let text =
        if broken.is_empty() { ends } else { format!("{ends}, others: {}", broken.join("; ")) };
    report.check(broken.is_empty(), &text);
    Ok(())
}

async fn wait_for_end(pid: Pid, within: Duration) -> bool {
    let until = Instant::now() + within;
    while Instant::now() < until {
        if kill(pid, None) == Err(Errno::ESRCH) || is_zombie(pid) {
            return true;
        }
        sleep(POLL).await;
    }
    false
}

/// A process that ended, and whose parent has not asked how.
fn is_zombie(pid: Pid) -> bool {
    let path = format!("/proc/{pid}/stat");
    let stat = std::fs::read_to_string(Path::new(&path)).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z'))
}
