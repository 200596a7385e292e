//! The thread that owns the engine: made on it, measured on it, run on it.

use std::{
    sync::{Arc, mpsc},
    thread,
};

use anyhow::{Context as _, anyhow};
use kv::KvCore;
use sched::{Limits, Scheduler, StepCost};
use service::clock::Clock;
use text::Tokenizer;
use tokio::sync::oneshot;

use crate::{
    backend::Backend,
    calibration::{self, CostSource},
    hub::Hub,
    outlet::Outlets,
    step_loop::{Message, StepLoop},
};

/// Records that a watcher may be behind.
const RING_RECORDS: usize = 16_384;

/// The running engine thread.
pub(crate) struct EngineThread {
    pub(crate) commands: mpsc::Sender<Message>,
    pub(crate) hub: Arc<Hub>,
    /// Where its first idea of what steps cost comes from.
    pub(crate) cost_source: CostSource,
    /// Completes when the thread ends.
    pub(crate) ended: oneshot::Receiver<()>,
}

/// What is known once the engine is made and measured.
type Started = anyhow::Result<(Arc<Hub>, CostSource)>;

impl EngineThread {
    /// Starts the thread and waits until its engine is made and measured.
    pub(crate) async fn start(
        backend: Backend,
        limits: Limits,
        cache: Box<dyn KvCore>,
        clock: Clock,
    ) -> anyhow::Result<Self> {
        let (commands, inbox) = mpsc::channel();
        let (started, ready) = oneshot::channel();
        let (alive, ended) = oneshot::channel();
        let run = move || {
            let _alive = alive;
            engine_thread(backend, Scheduling { limits, cache }, clock, inbox, started);
        };
        thread::Builder::new().name("engine".into()).spawn(run).context("cannot start a thread")?;
        let (hub, cost_source) =
            ready.await.map_err(|_| anyhow!("the engine thread died at its start"))??;
        Ok(Self { commands, hub, cost_source, ended })
    }
}

/// What the scheduler is made of, but for the cost of steps.
struct Scheduling {
    limits: Limits,
    cache: Box<dyn KvCore>,
}

fn engine_thread(
    backend: Backend,
    scheduling: Scheduling,
    clock: Clock,
    inbox: mpsc::Receiver<Message>,
    started: oneshot::Sender<Started>,
) {
    let Backend { tokenizer, cost, keeps, with_engine, .. } = backend;
    // Taken once by whichever comes first: the loop, or a failure to make the engine.
    let mut parts = Some((inbox, tokenizer, scheduling));
    let mut started = Some(started);
    let outcome = with_engine(&mut |engine| {
        let (Some((inbox, tokenizer, scheduling)), Some(started)) = (parts.take(), started.take())
        else {
            return;
        };
        let vocabulary = u32::try_from(tokenizer.vocabulary().len()).unwrap_or(u32::MAX);
        let limits = &scheduling.limits;
        let known = cost
            .map_or_else(|| calibration::measure(engine, limits, keeps, vocabulary, &clock), Ok);
        let (cost, source) = match known.context("the first steps failed") {
            Ok(known) => known,
            Err(error) => return drop(started.send(Err(error))),
        };
        tracing::info!(?source, ?cost, "step cost");
        let step_loop = prepare_loop(cost, scheduling, clock, inbox, tokenizer);
        if started.send(Ok((step_loop.hub.clone(), source))).is_ok() {
            step_loop.run(engine);
        }
    });
    if let (Err(error), Some(started)) = (outcome, started) {
        drop(started.send(Err(error)));
    }
}

fn prepare_loop(
    cost: StepCost,
    scheduling: Scheduling,
    clock: Clock,
    inbox: mpsc::Receiver<Message>,
    tokenizer: Arc<dyn Tokenizer>,
) -> StepLoop {
    let Scheduling { limits, cache } = scheduling;
    let scheduler = Scheduler::new(limits, cost, cache);
    let now = clock.now();
    let hub = Arc::new(Hub::new(now, scheduler.snapshot(now), RING_RECORDS));
    StepLoop { inbox, scheduler, tokenizer, hub, clock, outlets: Outlets::default(), failures: 0 }
}
