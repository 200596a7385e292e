//! Watches the upstreams.
//!
//! A task asks every engine and the admission service how they are, a few times a second, each within
//! a second. `/ready` wants a recent answer; chat requests want only that the last one was good, so
//! that a slow moment refuses nobody, and a dead upstream is known before a request has to find out.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use proto::v1::InfoResponse;
use service::clock::Clock;
use tokio::{
    sync::watch,
    time::{Interval, MissedTickBehavior, interval, timeout},
};
use tracing::{info, warn};
use units::{Micros, Span};

use crate::{
    error::ApiError,
    metrics,
    upstream::{Admission, Engine},
};

const PROBE_EVERY: Duration = Duration::from_millis(250);
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);
/// `/ready` wants an answer that is not older than this.
const FRESH: Span = Span::from_millis(1_500);
/// An engine that does not say how it is for so long has left its requests alone. A slow moment of it, or
/// one failed call, is no reason to end answers: where the connection is lost, they know by themselves.
const FORSAKEN_AFTER: Duration = Duration::from_secs(10);

/// What an engine serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Served {
    pub(crate) model: String,
    /// Unix seconds, when the model was loaded.
    pub(crate) created: u64,
    pub(crate) context_tokens: u32,
    pub(crate) fingerprint: String,
    /// Token ids are below it; nothing when the engine does not say.
    pub(crate) vocabulary: Option<u32>,
}

impl Served {
    fn from_info(info: &InfoResponse) -> Option<Self> {
        let model = info.model.as_ref()?;
        let file: String = model.sha256.chars().take(8).collect();
        Some(Self {
            model: model.id.clone(),
            created: model.created,
            context_tokens: info.limits.as_ref()?.context_tokens,
            fingerprint: format!("fp_{}_{file}", info.version),
            vocabulary: (model.vocabulary > 0).then_some(model.vocabulary),
        })
    }
}

/// How an upstream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Not asked yet.
    Unknown,
    Up,
    /// It answers, but its engine thread does not.
    Stuck,
    /// It answers, but it watches no engine: it can let nobody in.
    Detached,
    Draining,
    Down,
}

impl State {
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Up => "ok",
            Self::Stuck => "stuck",
            Self::Detached => "detached",
            Self::Draining => "draining",
            Self::Down => "down",
        }
    }
}

/// What is known of one engine.
#[derive(Clone, Debug)]
pub(crate) struct EngineHealth {
    pub(crate) state: State,
    /// What it served when it last said so.
    pub(crate) served: Option<Arc<Served>>,
    /// The last good answer.
    pub(crate) good_at: Option<Micros>,
}

impl EngineHealth {
    pub(crate) fn is_fresh(&self, now: Micros) -> bool {
        self.state == State::Up && self.good_at.is_some_and(|at| now.since(at) <= FRESH)
    }
}

/// What is known of the upstreams, seen from every thread.
#[derive(Debug)]
pub(crate) struct Health {
    engines: Vec<watch::Sender<EngineHealth>>,
    admission: watch::Sender<State>,
}

impl Health {
    pub(crate) fn new(engines: usize) -> Self {
        let unknown = EngineHealth { state: State::Unknown, served: None, good_at: None };
        Self {
            engines: (0..engines).map(|_| watch::Sender::new(unknown.clone())).collect(),
            admission: watch::Sender::new(State::Unknown),
        }
    }

    /// Index and health of the first engine that is up.
    pub(crate) fn first_up(&self) -> Option<(usize, Arc<Served>)> {
        self.up().next()
    }

    /// The engines that are up, and what they serve.
    pub(crate) fn up(&self) -> impl Iterator<Item = (usize, Arc<Served>)> {
        self.engines.iter().enumerate().filter_map(|(index, engine)| {
            let health = engine.borrow();
            let served = health.served.as_ref().filter(|_| health.state == State::Up)?;
            Some((index, Arc::clone(served)))
        })
    }

    /// What is served, or was until the engine went away. Nothing before an engine has said so.
    pub(crate) fn known(&self) -> Option<Arc<Served>> {
        let served = |engine: &watch::Sender<EngineHealth>| engine.borrow().served.clone();
        self.best_engine().served.or_else(|| self.engines.iter().find_map(served))
    }

    /// The engine that serves, or else the one that comes nearest to it.
    pub(crate) fn best_engine(&self) -> EngineHealth {
        let up = self.engines.iter().find(|engine| engine.borrow().state == State::Up);
        let best = up.or_else(|| self.engines.first()).expect("settings name an engine");
        best.borrow().clone()
    }

    /// Returns when what runs in the engine has no hope left, although its connection lives: its thread is
    /// stuck, or it has long not said how it is.
    pub(crate) fn forsaken(&self, index: usize) -> impl Future<Output = ApiError> + use<> {
        forsaken_after(FORSAKEN_AFTER, self.engines[index].subscribe())
    }

    pub(crate) fn admission(&self) -> State {
        *self.admission.borrow()
    }

    /// A request has found out what the next probe would.
    pub(crate) fn engine_lost(&self, index: usize) {
        self.set_engine(index, State::Down, None, None);
    }

    /// See [`Health::engine_lost`].
    pub(crate) fn admission_lost(&self) {
        self.set_admission(State::Down);
    }

    fn set_engine(
        &self,
        index: usize,
        state: State,
        served: Option<Served>,
        good_at: Option<Micros>,
    ) {
        self.engines[index].send_modify(|health| {
            if health.state != state {
                info!(engine = index, state = state.label(), "engine");
            }
            health.state = state;
            health.good_at = good_at.or(health.good_at);
            if served.is_some() && served.as_ref() != health.served.as_deref() {
                health.served = served.map(Arc::new);
            }
        });
    }

    fn set_admission(&self, state: State) {
        let before = self.admission.send_replace(state);
        if before != state {
            info!(state = state.label(), "admission service");
        }
    }
}

/// See [`Health::forsaken`].
async fn forsaken_after(silence: Duration, mut engine: watch::Receiver<EngineHealth>) -> ApiError {
    let mute = |health: &EngineHealth| matches!(health.state, State::Stuck | State::Down);
    loop {
        let state = match engine.wait_for(mute).await {
            Ok(health) => health.state,
            // The application is gone, and with it the reason to wait.
            Err(_) => std::future::pending().await,
        };
        if state == State::Stuck {
            return ApiError::EngineDown { reason: "it makes no progress".into() };
        }
        let heard = engine.wait_for(|health| health.state != State::Down);
        if timeout(silence, heard).await.is_err() {
            return ApiError::EngineDown { reason: "it does not answer".into() };
        }
    }
}

/// Asks for ever.
pub(crate) async fn run(
    health: Arc<Health>,
    engines: Vec<Engine>,
    admission: Admission,
    clock: Clock,
) {
    let engines = engines.into_iter().enumerate().map(|(index, engine)| {
        let health = Arc::clone(&health);
        async move {
            let mut beat = beat();
            loop {
                beat.tick().await;
                probe_engine(&health, index, &engine, clock).await;
            }
        }
    });
    let engines = join_all(engines);
    let admission = async {
        let mut beat = beat();
        loop {
            beat.tick().await;
            probe_admission(&health, &admission).await;
        }
    };
    tokio::join!(engines, admission);
}

fn beat() -> Interval {
    let mut beat = interval(PROBE_EVERY);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    beat
}

async fn probe_engine(health: &Health, index: usize, engine: &Engine, clock: Clock) {
    let answer = timeout(PROBE_TIMEOUT, engine.info()).await;
    let (state, served) = match answer {
        Ok(Ok(info)) => {
            let served = Served::from_info(&info);
            if served.is_none() {
                warn!(engine = index, "the engine does not say what it serves");
            }
            (engine_state(&info), served)
        }
        Ok(Err(_)) | Err(_) => (State::Down, None),
    };
    let up = state == State::Up && served.is_some();
    let state = if state == State::Up && !up { State::Unknown } else { state };
    health.set_engine(index, state, served, up.then(|| clock.now()));
    metrics::engine_up(health.first_up().is_some());
}

fn engine_state(info: &InfoResponse) -> State {
    if info.draining {
        State::Draining
    } else if info.stuck {
        State::Stuck
    } else {
        State::Up
    }
}

async fn probe_admission(health: &Health, admission: &Admission) {
    let answer = timeout(PROBE_TIMEOUT, admission.policy()).await;
    let state = match answer {
        Ok(Ok(policy)) if policy.draining => State::Draining,
        Ok(Ok(policy)) if policy.engines.iter().any(|engine| engine.epoch > 0) => State::Up,
        Ok(Ok(_)) => State::Detached,
        Ok(Err(_)) | Err(_) => State::Down,
    };
    health.set_admission(state);
    metrics::admission_up(state == State::Up);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(health: &Health, silence: u64) -> impl Future<Output = bool> + use<> {
        let silence = Duration::from_millis(silence);
        let forsaken = forsaken_after(silence, health.engines[0].subscribe());
        async { timeout(Duration::from_millis(200), forsaken).await.is_ok() }
    }

    #[tokio::test]
    async fn requests_are_forsaken_by_a_stuck_engine_at_once_and_by_a_silent_one_in_time() {
        let health = Health::new(1);
        for (state, silence, wanted) in [
            (State::Unknown, 0, false),
            (State::Up, 0, false),
            (State::Draining, 0, false),
            (State::Stuck, 60_000, true),
            (State::Down, 60_000, false),
            (State::Down, 10, true),
        ] {
            health.set_engine(0, state, None, None);
            assert_eq!(ends(&health, silence).await, wanted, "{state:?}, {silence} ms");
        }
    }
}
