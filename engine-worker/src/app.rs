//! Builds the worker, serves, drains.
//!
//! Sockets are bound first, then the model is loaded and measured; only then is anything served.

use std::{
    net::{SocketAddr, TcpListener},
    sync::{Arc, Mutex, PoisonError, atomic::AtomicU64, mpsc},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context as _, bail};
use proto::v1::engine_server::EngineServer;
use sched::Limits;
use service::{clock::Clock, grpc, net, telemetry};
use text::ChatTemplate;
use tokio::sync::{Semaphore, oneshot};
use units::{Micros, Span};

use crate::{
    backend::{self, Backend, Opened},
    calibration::{self, CostSource},
    engine_thread::EngineThread,
    grpc::{EngineService, Facts},
    hub::Hub,
    identity::Identity,
    metrics,
    prepare::{Pantry, PantryLimits},
    provenance::Provenance,
    scheduling::{self, Told},
    settings::{BackendKind, EngineSettings},
    step_loop::Message,
    watch::WatchDesk,
};

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
        let loaded = tokio::task::spawn_blocking(move || load(settings)).await??;
        let Loaded { settings, backend, identity } = loaded;
        let limits = backend.sizes.limits(&settings);
        report_load(&settings, &backend, &limits, clock);

        let tokenizer = backend.tokenizer.clone();
        let template = ChatTemplate::of(&*tokenizer).context("the model's chat template")?;
        let (name, model) = (backend.name, backend.model.clone());
        let told = Told::new(&settings.scheduling, backend.owners);
        let cache =
            scheduling::core(&settings.scheduling, &limits, backend.owners, backend.token_bytes);
        let EngineThread { commands, hub, cost_source, ended } =
            EngineThread::start(backend, limits, cache, clock).await?;
        let (created, sha256) = (unix_micros() / 1_000_000, identity.hash());
        let facts = Facts { backend: name, model, created, sha256, cost_source };
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

/// A backend, and the settings with what they left open.
struct Loaded {
    settings: EngineSettings,
    backend: Backend,
    identity: Identity,
}

/// Loads what the settings name, in the configuration that a stored calibration found best as far as the
/// settings leave it open.
fn load(mut settings: EngineSettings) -> anyhow::Result<Loaded> {
    let file = settings.model.clone().filter(|_| settings.backend == BackendKind::Llama);
    let hashing = file.map(Identity::of_file);
    let opened = backend::open(&settings)?;
    let stored = hashing.as_ref().and_then(|identity| stored(&settings, &opened, identity));
    if let Some(artifact) = &stored {
        settings.take(&artifact.configuration);
    }
    let mut backend = opened.backend(&settings)?;
    if let Some(artifact) = stored {
        backend.cost = Some((artifact.cost(), CostSource::Calibrated));
    }
    let of_vocabulary = || Identity::of_vocabulary(backend.name, backend.tokenizer.vocabulary());
    let identity = hashing.unwrap_or_else(of_vocabulary);
    Ok(Loaded { settings, backend, identity })
}

fn stored(
    settings: &EngineSettings,
    opened: &Opened,
    identity: &Identity,
) -> Option<calibration::Artifact> {
    let (bytes, version) = opened.measurable()?;
    calibration::stored(settings, identity, version, bytes)
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
    if let Some(Provenance { source, to, report, .. }) = &backend.model.derived {
        let (original, perplexity) = (&source.name, report.likeness.ratio);
        tracing::info!(original, to, perplexity, "the file is re-quantised by `optimize`");
    }
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

fn unix_micros() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX / 2)
}
