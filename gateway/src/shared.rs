//! What requests work with: the state that all threads share, and each thread's connections.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use anyhow::Context as _;
use metrics_exporter_prometheus::PrometheusHandle;
use service::clock::Clock;

use crate::{
    auth::Keys,
    budget::Budget,
    connection::Seats,
    cors::Cors,
    drain::Drain,
    error::ApiError,
    fallback::LocalCap,
    probe::{Health, Served, State},
    settings::Settings,
    upstream::{Admission, Engine},
};

/// What all threads share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) clock: Clock,
    pub(crate) health: Arc<Health>,
    pub(crate) local_cap: LocalCap,
    pub(crate) drain: Drain,
    pub(crate) flights: Flights,
    pub(crate) keys: Keys,
    pub(crate) cors: Arc<Cors>,
    pub(crate) bodies: Arc<Budget>,
    pub(crate) seats: Arc<Seats>,
    pub(crate) metrics: PrometheusHandle,
}

/// Requests for answers in flight.
#[derive(Debug, Default)]
pub(crate) struct Flights(AtomicUsize);

impl Flights {
    pub(crate) fn begin(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn end(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// What one HTTP worker thread works with: the shared part, and connections of its own.
#[derive(Debug)]
pub(crate) struct Gateway {
    pub(crate) shared: Arc<Shared>,
    pub(crate) engines: Vec<Engine>,
    pub(crate) admission: Admission,
}

impl Gateway {
    /// Must be called on the worker's runtime.
    pub(crate) fn connect(shared: Arc<Shared>) -> Self {
        let (engines, admission) =
            upstreams(&shared.settings).expect("the addresses were checked when the app was built");
        Self { shared, engines, admission }
    }

    /// Index of the engine that serves now, and what it serves.
    ///
    /// # Errors
    /// None is up.
    pub(crate) fn serving_engine(&self) -> Result<(usize, Arc<Served>), ApiError> {
        self.shared.health.first_up().ok_or_else(|| {
            let reason = match self.shared.health.best_engine().state {
                State::Unknown => "it has not answered yet",
                State::Stuck => "it makes no progress",
                State::Draining => "it is shutting down",
                State::Up | State::Detached | State::Down => "it does not answer",
            };
            ApiError::EngineDown { reason: reason.into() }
        })
    }
}

/// Connects to what the settings name, on the current runtime.
///
/// # Errors
/// An address is not one.
pub(crate) fn upstreams(settings: &Settings) -> anyhow::Result<(Vec<Engine>, Admission)> {
    let engines = settings.engine.iter().map(|address| Engine::at(address));
    let engines = engines.collect::<Result<_, _>>().context("engine")?;
    Ok((engines, Admission::at(&settings.admission).context("admission")?))
}
