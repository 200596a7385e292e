//! The service as a whole: built, run, drained.
//!
//! Everything lives on the one thread of an actix system: a decision takes microseconds, waking
//! another thread for it takes longer.

use std::{net::TcpListener, process, sync::Arc, thread, time::Duration};

use actix::{Actor as _, Addr};
use admit::{Controller, EngineId};
use anyhow::{Context as _, anyhow};
use proto::v1::admission_server::AdmissionServer;
use rand::{RngExt as _, SeedableRng as _, rngs::SysRng};
use rand_chacha::ChaCha8Rng;
use service::{
    clock::{self, Clock},
    grpc,
};
use tokio::{
    sync::oneshot,
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::{
    actor::Admission,
    grpc::Service,
    message::{Drain, Stop},
    settings::Settings,
    traces::Recorder,
    watch::Watcher,
};

/// How long open calls may take to end once everybody was answered.
const CLOSE_WITHIN: Duration = Duration::from_secs(5);
/// How long the last rows may take to reach the disk.
const FLUSH_WITHIN: Duration = Duration::from_secs(5);

/// The service, ready to run.
pub struct App {
    listener: TcpListener,
    service: Service,
    watchers: Vec<Watcher>,
    actor: Addr<Admission>,
    actor_ended: oneshot::Receiver<()>,
    /// Ends once the actor has.
    trace_thread: thread::JoinHandle<()>,
}

impl App {
    /// Starts the actor and prepares the rest. Must be called inside an actix system.
    ///
    /// # Errors
    /// An engine's address is not one, or the machine has no randomness.
    pub fn build(settings: Settings, listener: TcpListener) -> anyhow::Result<Self> {
        let clock = Clock::start();
        let mut rng = ChaCha8Rng::try_from_rng(&mut SysRng).context("no randomness")?;
        let settings = Arc::new(settings);
        let addresses = settings.engines();
        let channels = addresses
            .iter()
            .map(|address| grpc::connect_lazily(address).context("engine"))
            .collect::<anyhow::Result<Vec<_>>>()?;

        let run_id = format!("{:016x}{:016x}", clock::unix_now().0, rng.random::<u64>());
        let (traces, trace_thread) = settings.keeper(run_id).start()?;
        let (actor, actor_ended) = start_actor(&settings, clock, rng.fork(), traces);
        let name = format!("admission-{}-{:08x}", process::id(), rng.random::<u32>());
        let watchers = addresses.into_iter().zip(channels).zip(0..);
        let watchers = watchers.map(|((address, channel), id)| {
            Watcher::new(
                EngineId(id),
                address,
                channel,
                actor.clone(),
                clock,
                name.clone(),
                rng.fork(),
            )
        });
        let watchers = watchers.collect();
        let service = Service::new(actor.clone(), clock, settings);
        Ok(Self { listener, service, watchers, actor, actor_ended, trace_thread })
    }

    /// Serves until `stop` completes; then refuses newcomers, answers those who wait, and ends. However it
    /// ends, open decisions are closed and the last rows reach the store.
    ///
    /// # Errors
    /// The listener fails, or the actor ends by itself.
    pub async fn run(self, stop: impl Future<Output = ()>) -> anyhow::Result<()> {
        let Self { listener, service, watchers, actor, actor_ended, trace_thread } = self;
        let serving = Serving { listener, service, watchers, actor: actor.clone(), actor_ended };
        let served = serving.run(stop).await;
        // One that has ended by itself has let the store's queue go, too.
        let stopped = actor.send(Stop).await.context("cannot stop the actor");
        if timeout(FLUSH_WITHIN, finished(&trace_thread)).await.is_err() {
            tracing::error!("the last traces could not be flushed in {} s", FLUSH_WITHIN.as_secs());
        }
        served.and(stopped)
    }
}

/// What answers callers.
struct Serving {
    listener: TcpListener,
    service: Service,
    watchers: Vec<Watcher>,
    actor: Addr<Admission>,
    actor_ended: oneshot::Receiver<()>,
}

impl Serving {
    /// Until `stop` completes and everybody has been answered, or until something breaks.
    async fn run(self, stop: impl Future<Output = ()>) -> anyhow::Result<()> {
        let (router, reporter) = grpc::server()?;
        let router = router.add_service(AdmissionServer::new(self.service));
        reporter.set_serving::<AdmissionServer<Service>>().await;
        let mut watching = JoinSet::new();
        self.watchers.into_iter().for_each(|watcher| drop(watching.spawn(watcher.run())));

        let (close, closed) = oneshot::channel::<()>();
        let serving = grpc::serve(router, self.listener, async { drop(closed.await) });
        tokio::pin!(serving);
        tokio::select! {
            served = &mut serving => return served,
            _ = self.actor_ended => return Err(anyhow!("the admission actor has ended")),
            () = stop => {}
        }

        reporter.set_not_serving::<AdmissionServer<Service>>().await;
        self.actor.send(Drain).await.context("cannot drain")?;
        drop(close);
        // Callers that do not take their answers do not keep the service.
        let served = timeout(CLOSE_WITHIN, serving).await.unwrap_or(Ok(()));
        watching.shutdown().await;
        served
    }
}

/// A thread that hangs must not keep the process: it is asked, not joined.
async fn finished(thread: &thread::JoinHandle<()>) {
    while !thread.is_finished() {
        sleep(Duration::from_millis(5)).await;
    }
}

/// Starts the actor. The receiver is told when it ends.
fn start_actor(
    settings: &Settings,
    clock: Clock,
    rng: ChaCha8Rng,
    traces: Recorder,
) -> (Addr<Admission>, oneshot::Receiver<()>) {
    let controller = Controller::new(settings.controller());
    let (actor, ended) = Admission::new(controller, clock, rng, traces, &settings.engines());
    (actor.start(), ended)
}

#[cfg(test)]
mod tests {
    use service::settings::{Request, read};

    use super::*;
    use crate::{Caps, Disk};

    #[actix::test]
    async fn an_app_that_breaks_waits_for_its_traces_too() {
        let dir = tempfile::tempdir().expect("a directory");
        let folder = dir.path().to_str().expect("text");
        let args = ["admission-svc", "--engine", "", "--trace-dir", folder];
        let settings = match read::<Settings>(args.map(Into::into), &Default::default()) {
            Ok(Request::Run(settings)) => settings,
            Ok(Request::Print(_) | Request::Healthcheck(_)) | Err(_) => {
                panic!("these are settings")
            }
        };
        let listener = service::net::bind(([127, 0, 0, 1], 0).into()).expect("a free port");
        let app = App::build(settings, listener).expect("built");
        app.actor.do_send(Stop);
        let ended = app.run(std::future::pending()).await.expect_err("nobody asked it to end");
        assert_eq!(ended.to_string(), "the admission actor has ended");
        let caps = Caps { bytes: 64 << 20, rows: 1_000 };
        assert!(Disk::open(dir.path(), caps).is_ok(), "the folder is free again");
    }
}
