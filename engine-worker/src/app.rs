//! Builds the worker, serves, drains.
//!
//! Sockets are bound first, then the model is loaded and measured; only then is anything served.

use std::{
    fs::File,
    io,
    net::{SocketAddr, TcpListener},
    path::Path,
    sync::{Arc, Mutex, OnceLock, PoisonError, atomic::AtomicU64, mpsc},
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context as _, anyhow, bail};
use kv::KvCore;
use proto::v1::engine_server::EngineServer;
use sched::{Engine, Limits, Scheduler, StepCost};
use service::{clock::Clock, grpc, net, telemetry};
use sha2::{Digest as _, Sha256};
use text::{ChatTemplate, Tokenizer};
use tokio::sync::{Semaphore, oneshot};
use units::{Micros, Span, Token};

use crate::{
    backend::{self, Backend},
    grpc::{EngineService, Facts},
    hub::Hub,
    metrics,
    outlet::Outlets,
    prepare::{Pantry, PantryLimits},
    scheduling::{self, Told},
    settings::{BackendKind, EngineSettings},
    step_loop::{Message, StepLoop},
    warmup,
    watch::WatchDesk,
};

/// Records that a watcher may be behind.
const RING_RECORDS: usize = 16_384;
/// `Generate` calls beyond what the scheduler takes: they are on their way in or out.
const GENERATE_MARGIN: usize = 64;
/// Prompts that were touched and that the step loop has not heard of. Each may be as long as a context.
const TOUCHES_MAX: usize = 64;
/// Open `Watch` calls: each may get a hundred snapshots a second.
const WATCHERS: usize = 16;
/// Prompts that are tokenised at once.
const TOKENISING: usize = 2;
/// How long a finished stream may take to leave after the drain.
const FLUSH: Duration = Duration::from_millis(500);

/// A worker that is ready to serve.
pub struct App {
    listener: TcpListener,
    address: SocketAddr,
    service: EngineService,
    commands: mpsc::Sender<Message>,
    hub: Arc<Hub>,
    /// Completes when the engine thread ends.
    engine_ended: oneshot::Receiver<()>,
    drain: Duration,
}

impl App {
    /// Binds the sockets, loads the model, measures it and starts the engine thread.
    ///
    /// # Errors
    /// One line: a busy address, a broken model file, sizes that do not fit.
    pub async fn build(settings: EngineSettings) -> anyhow::Result<Self> {
        let listener = net::bind(settings.listen)?;
        let metrics_listener = metrics_listener(&settings)?;
        let clock = Clock::start();
        let loading = settings.clone();
        let backend = tokio::task::spawn_blocking(move || backend::load(&loading)).await??;
        let limits = backend.sizes.limits(&settings);
        report_load(&settings, &backend, &limits, clock);

        let tokenizer = backend.tokenizer.clone();
        let template = ChatTemplate::of(&*tokenizer).context("the model's chat template")?;
        let facts = Facts {
            backend: backend.name,
            model: backend.model.clone(),
            created: unix_micros() / 1_000_000,
            sha256: identity(&backend, &settings),
        };
        let told = Told::new(&settings.scheduling, backend.owners);
        let cache =
            scheduling::core(&settings.scheduling, &limits, backend.owners, backend.token_bytes);
        let EngineThread { commands, hub, ended } =
            EngineThread::start(backend, limits, cache, clock).await?;
        let pantry = Arc::new(Mutex::new(pantry(&settings)));
        if let Some(listener) = metrics_listener {
            serve_metrics(listener, hub.clone(), pantry.clone(), clock)?;
        }
        let open = limits.slots as usize + limits.waiting as usize + GENERATE_MARGIN;
        let service = EngineService {
            commands: commands.clone(),
            watch: Arc::new(WatchDesk::new(hub.clone(), clock, unix_micros(), told)),
            longest_token: tokenizer.vocabulary().longest(),
            tokenizer,
            template: Arc::new(template),
            pantry,
            hold: Span::from_millis(settings.prepared_ms),
            context_tokens: limits.context_tokens,
            preparing: Arc::new(Semaphore::new(settings.preparing_max)),
            tokenising: Arc::new(Semaphore::new(TOKENISING)),
            watchers: Arc::new(Semaphore::new(WATCHERS)),
            serials: AtomicU64::new(0),
            generating: Arc::new(Semaphore::new(open)),
            touching: Arc::new(Semaphore::new(TOUCHES_MAX)),
            facts,
        };
        let address = listener.local_addr()?;
        tracing::info!(%address, "ready after {}", clock.now().since(Micros(0)));
        let drain = Duration::from_millis(settings.drain_ms);
        Ok(Self { listener, address, service, commands, hub, engine_ended: ended, drain })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop` completes; then refuses what is new, lets what runs finish for the drain
    /// time, and ends the rest in band.
    ///
    /// # Errors
    /// The listener fails, or the engine thread dies.
    pub async fn run(mut self, stop: impl Future<Output = ()>) -> anyhow::Result<()> {
        let (router, health) = grpc::server()?;
        health.set_serving::<EngineServer<EngineService>>().await;
        let service = EngineServer::new(self.service)
            .max_decoding_message_size(proto::MESSAGE_BYTES_MAX)
            .max_encoding_message_size(proto::MESSAGE_BYTES_MAX);
        let (close, closed) = oneshot::channel::<()>();
        let mut serving =
            tokio::spawn(grpc::serve(router.add_service(service), self.listener, async {
                drop(closed.await);
            }));
        tokio::select! {
            () = stop => {}
            served = &mut serving => return served?,
            _ = &mut self.engine_ended => bail!("the engine thread died"),
        }

        tracing::info!("draining");
        health.set_not_serving::<EngineServer<EngineService>>().await;
        drop(self.commands.send(Message::Drain));
        tokio::select! {
            () = idle(&self.hub) => {}
            () = tokio::time::sleep(self.drain) => tracing::warn!("ending what still runs"),
            _ = &mut self.engine_ended => bail!("the engine thread died"),
        }
        drop(self.commands.send(Message::Stop));
        let _ = close.send(());
        // Watch streams have no end of their own, so the wait for open calls is bounded.
        let _ = tokio::time::timeout(FLUSH, &mut serving).await;
        serving.abort();
        tracing::info!("stopped");
        Ok(())
    }
}

fn metrics_listener(settings: &EngineSettings) -> anyhow::Result<Option<TcpListener>> {
    let address = settings.metrics_listen.as_str();
    if address.is_empty() {
        return Ok(None);
    }
    let parsed = address.parse().with_context(|| format!("metrics_listen: {address:?}"))?;
    net::bind(parsed).map(Some)
}

fn report_load(settings: &EngineSettings, backend: &Backend, limits: &Limits, clock: Clock) {
    let (model, slots, context_tokens) = (&backend.model.id, limits.slots, limits.context_tokens);
    let took = clock.now().since(Micros(0));
    tracing::info!(model, slots, context_tokens, "model loaded after {took}");
    if settings.context_tokens > context_tokens {
        let asked = settings.context_tokens;
        tracing::warn!(
            asked,
            "context_tokens: more than the model was trained on, or than all KV blocks hold"
        );
    }
}

/// Returns when nothing runs or waits.
async fn idle(hub: &Hub) {
    let mut latest = hub.subscribe();
    let empty = latest.wait_for(|it| it.snapshot.draining && it.snapshot.sequences.is_empty());
    drop(empty.await);
}

fn pantry(settings: &EngineSettings) -> Pantry {
    Pantry::new(PantryLimits {
        requests: settings.prepared_max,
        bytes: settings.prepared_mib << 20,
        hold: Span::from_millis(settings.prepared_ms),
    })
}

fn serve_metrics(
    listener: TcpListener,
    hub: Arc<Hub>,
    pantry: Arc<Mutex<Pantry>>,
    clock: Clock,
) -> anyhow::Result<()> {
    let handle = telemetry::start_metrics()?;
    metrics::describe();
    telemetry::serve_metrics(listener, handle)?;
    tokio::spawn(async move {
        let mut tick = tokio::time::interval(Duration::from_millis(500));
        loop {
            tick.tick().await;
            let now = clock.now();
            let prepared = pantry.lock().unwrap_or_else(PoisonError::into_inner).len(now);
            metrics::gauges(&hub.latest(), prepared);
        }
    });
    Ok(())
}

/// The running engine thread.
struct EngineThread {
    commands: mpsc::Sender<Message>,
    hub: Arc<Hub>,
    ended: oneshot::Receiver<()>,
}

impl EngineThread {
    /// Starts the thread and waits until its engine is made and measured.
    async fn start(
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
        let hub = ready.await.map_err(|_| anyhow!("the engine thread died at its start"))??;
        Ok(Self { commands, hub, ended })
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
    started: oneshot::Sender<anyhow::Result<Arc<Hub>>>,
) {
    let Backend { tokenizer, cost, with_engine, .. } = backend;
    // Taken once by whichever comes first: the loop, or a failure to make the engine.
    let mut parts = Some((inbox, tokenizer, scheduling));
    let mut started = Some(started);
    let outcome = with_engine(&mut |engine| {
        let (Some((inbox, tokenizer, scheduling)), Some(started)) = (parts.take(), started.take())
        else {
            return;
        };
        match prepare_loop(engine, cost, scheduling, clock, inbox, tokenizer) {
            Ok(step_loop) => {
                if started.send(Ok(step_loop.hub.clone())).is_ok() {
                    step_loop.run(engine);
                }
            }
            Err(error) => drop(started.send(Err(error))),
        }
    });
    if let (Err(error), Some(started)) = (outcome, started) {
        drop(started.send(Err(error)));
    }
}

fn prepare_loop(
    engine: &mut dyn Engine,
    cost: Option<StepCost>,
    scheduling: Scheduling,
    clock: Clock,
    inbox: mpsc::Receiver<Message>,
    tokenizer: Arc<dyn Tokenizer>,
) -> anyhow::Result<StepLoop> {
    let Scheduling { limits, cache } = scheduling;
    let cost = match cost {
        Some(cost) => cost,
        None => warmup::measure(engine, &limits, &clock).context("the first steps failed")?,
    };
    tracing::info!(?cost, "step cost");
    let scheduler = Scheduler::new(limits, cost, cache);
    let now = clock.now();
    let hub = Arc::new(Hub::new(now, scheduler.snapshot(now), RING_RECORDS));
    Ok(StepLoop {
        inbox,
        scheduler,
        tokenizer,
        hub,
        clock,
        outlets: Outlets::default(),
        failures: 0,
    })
}

/// What tells this model from others: the hash of its file, made beside everything else since a large
/// one takes minutes. The mock has no file, so its vocabulary stands for it.
fn identity(backend: &Backend, settings: &EngineSettings) -> Arc<OnceLock<String>> {
    let hash = Arc::new(OnceLock::new());
    match (settings.backend, &settings.model) {
        (BackendKind::Llama, Some(path)) => {
            let (path, hash) = (path.clone(), hash.clone());
            thread::spawn(move || hash_file(&path, &hash));
        }
        (BackendKind::Mock, _) | (BackendKind::Llama, None) => {
            let vocabulary = backend.tokenizer.vocabulary();
            let ids = (0..).map(Token).take(vocabulary.len());
            let mut hasher = Sha256::new_with_prefix(backend.name);
            ids.for_each(|token| hasher.update(vocabulary.piece(token)));
            drop(hash.set(hex(&hasher.finalize())));
        }
    }
    hash
}

fn hash_file(path: &Path, hash: &OnceLock<String>) {
    let mut hasher = Sha256::new();
    match File::open(path).and_then(|mut file| io::copy(&mut file, &mut hasher)) {
        Ok(_) => drop(hash.set(hex(&hasher.finalize()))),
        Err(error) => tracing::warn!("cannot hash {}: {error}", path.display()),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unix_micros() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX / 2)
}
