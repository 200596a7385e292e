//! The application: build it from settings and a listener, run it until it is told to stop.

use std::{
    net::{SocketAddr, TcpListener},
    sync::Arc,
    time::Duration,
};

use anyhow::Context as _;
use metrics_exporter_prometheus::PrometheusHandle;
use service::clock::Clock;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};
use tracing::{info, warn};

use crate::{
    auth::Keys,
    budget::Budget,
    connection::Seats,
    drain::{Drain, Phase},
    fallback::LocalCap,
    metrics,
    probe::{self, Health},
    server,
    settings::Settings,
    shared::{Flights, Shared, upstreams},
    upstream::{Admission, Engine},
};

/// How long answers get to tell their clients that the process ends.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// How often a draining process looks whether it is done.
const DRAIN_BEAT: Duration = Duration::from_millis(20);

/// The gateway, ready to serve.
#[derive(Debug)]
pub struct App {
    shared: Arc<Shared>,
    listener: TcpListener,
    address: SocketAddr,
    engines: Vec<Engine>,
    admission: Admission,
}

impl App {
    /// Prepares to serve on `listener`, which is bound and non-blocking; `metrics` renders what
    /// `GET /metrics` shows. Must be called inside a multi-threaded tokio runtime.
    ///
    /// # Errors
    /// An upstream's address is not one, or the API keys cannot be read.
    pub fn build(
        settings: Settings,
        listener: TcpListener,
        metrics: PrometheusHandle,
    ) -> anyhow::Result<Self> {
        metrics::describe();
        let address = listener.local_addr().context("the listener is not bound")?;
        let (engines, admission) = upstreams(&settings)?;
        let shared = Shared {
            clock: Clock::start(),
            health: Arc::new(Health::new(engines.len())),
            local_cap: LocalCap::new(&settings),
            drain: Drain::new(),
            flights: Flights::default(),
            keys: Keys::load(&settings.keys)?,
            cors: Arc::new(settings.http.cors().map_err(anyhow::Error::msg)?),
            bodies: Budget::new(settings.http.bodies_bytes_max),
            seats: Seats::new(settings.http.connections_max as usize),
            metrics,
            settings,
        };
        Ok(Self { shared: Arc::new(shared), listener, address, engines, admission })
    }

    /// Where HTTP is served.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop` completes, then drains: `/ready` and new requests for answers get 503 while
    /// running answers finish or, past the limit or when `hurry` completes, are told in band.
    ///
    /// # Errors
    /// The server cannot be started, or fails.
    pub async fn run(
        self,
        stop: impl Future<Output = ()>,
        hurry: impl Future<Output = ()>,
    ) -> anyhow::Result<()> {
        let Self { shared, listener, engines, admission, .. } = self;
        let probes = probe::run(Arc::clone(&shared.health), engines, admission, shared.clock);
        let server = server::start(&shared, listener)?;
        let handle = server.handle();
        let mut serving = tokio::spawn(server);
        let watching = async {
            tokio::select! {
                () = probes => {}
                () = drain(&shared, stop, hurry) => {}
            }
        };
        tokio::select! {
            outcome = &mut serving => {
                outcome.context("the HTTP server died")?.context("the HTTP server failed")?;
                anyhow::bail!("the HTTP server stopped by itself");
            }
            () = watching => {}
        }
        handle.stop(true).await;
        serving.await.context("the HTTP server died")?.context("the HTTP server failed")
    }
}

/// Waits for `stop`, then until the answers that run are done, one way or the other.
async fn drain(shared: &Shared, stop: impl Future<Output = ()>, hurry: impl Future<Output = ()>) {
    stop.await;
    shared.drain.enter(Phase::Draining);
    info!(in_flight = shared.flights.count(), "draining");
    tokio::select! {
        () = finish(shared) => {}
        () = hurry => {
            info!("asked a second time");
            tell(shared).await;
        }
    }
}

/// Gives answers their time, and whoever looks at `/ready` the time to see it turn.
async fn finish(shared: &Shared) {
    let settings = &shared.settings;
    let grace = Instant::now() + Duration::from_millis(settings.drain_grace_ms);
    let limit = Instant::now() + Duration::from_millis(settings.drain_timeout_ms);
    if !empty(shared, limit).await {
        tell(shared).await;
    }
    sleep_until(grace).await;
}

/// Tells the answers that still run that they have to end.
async fn tell(shared: &Shared) {
    warn!(in_flight = shared.flights.count(), "telling the answers that still run");
    shared.drain.enter(Phase::Ending);
    empty(shared, Instant::now() + LAST_WORDS).await;
}

/// Whether nothing was in flight before `limit`.
async fn empty(shared: &Shared, limit: Instant) -> bool {
    let poll = async {
        while shared.flights.count() > 0 {
            sleep(DRAIN_BEAT).await;
        }
    };
    timeout_at(limit, poll).await.is_ok()
}
