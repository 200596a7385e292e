//! An engine that the test plays: each `Watch` call becomes a [`Session`] in the test's hands.

use std::{net::SocketAddr, pin::Pin};

use proto::v1::{
    self, WatchEvent,
    engine_server::{Engine, EngineServer},
    watch_event, watch_request,
};
use tokio::{sync::mpsc, task::JoinHandle};
use tokio_stream::{Stream, wrappers::ReceiverStream};
use tonic::{Request, Response, Status, Streaming};

pub(crate) struct FakeEngine {
    pub(crate) address: SocketAddr,
    sessions: mpsc::Receiver<Session>,
    serving: JoinHandle<()>,
}

/// One `Watch` call.
pub(crate) struct Session {
    pub(crate) hello: v1::Hello,
    events: mpsc::Sender<Result<WatchEvent, Status>>,
    pings: Streaming<v1::WatchRequest>,
    record: u64,
}

struct Script(mpsc::Sender<Session>);

type Events<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl Engine for Script {
    type WatchStream = Events<WatchEvent>;
    type GenerateStream = Events<v1::GenerateEvent>;

    async fn watch(
        &self,
        request: Request<Streaming<v1::WatchRequest>>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let mut pings = request.into_inner();
        let first = pings.message().await?.and_then(|it| it.message);
        let Some(watch_request::Message::Hello(hello)) = first else {
            return Err(Status::invalid_argument("hello comes first"));
        };
        let (events, stream) = mpsc::channel(64);
        let session = Session { hello, events, pings, record: 0 };
        self.0.send(session).await.map_err(|_| Status::unavailable("the test is over"))?;
        Ok(Response::new(Box::pin(ReceiverStream::new(stream))))
    }

    async fn prepare(
        &self,
        _: Request<v1::PrepareRequest>,
    ) -> Result<Response<v1::PrepareResponse>, Status> {
        Err(Status::unimplemented("not played"))
    }

    async fn generate(
        &self,
        _: Request<v1::GenerateRequest>,
    ) -> Result<Response<Self::GenerateStream>, Status> {
        Err(Status::unimplemented("not played"))
    }

    async fn control(
        &self,
        _: Request<v1::ControlRequest>,
    ) -> Result<Response<v1::ControlResponse>, Status> {
        Err(Status::unimplemented("not played"))
    }

    async fn info(
        &self,
        _: Request<v1::InfoRequest>,
    ) -> Result<Response<v1::InfoResponse>, Status> {
        Err(Status::unimplemented("not played"))
    }
}

impl FakeEngine {
    pub(crate) fn start() -> Self {
        let listener = service::net::bind(([127, 0, 0, 1], 0).into()).expect("a free port");
        let address = listener.local_addr().expect("bound");
        let (script, sessions) = mpsc::channel(8);
        let router =
            tonic::transport::Server::builder().add_service(EngineServer::new(Script(script)));
        let serving = tokio::spawn(async move {
            let forever = std::future::pending();
            service::grpc::serve(router, listener, forever).await.expect("served");
        });
        Self { address, sessions, serving }
    }

    /// The next watcher that connects.
    pub(crate) async fn session(&mut self) -> Session {
        self.sessions.recv().await.expect("the server runs")
    }

    /// The next watcher, granted an epoch and shown an empty engine.
    pub(crate) async fn attach(&mut self, epoch: u64) -> Session {
        let session = self.session().await;
        session.grant(epoch, "e1", false).await;
        session.snapshot(snapshot("e1")).await;
        session
    }
}

impl Drop for FakeEngine {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Session {
    pub(crate) async fn send(&self, event: watch_event::Event) {
        let event = WatchEvent { event: Some(event) };
        self.events.send(Ok(event)).await.expect("the watcher listens");
    }

    pub(crate) async fn fail(self, status: Status) {
        self.events.send(Err(status)).await.expect("the watcher listens");
    }

    pub(crate) async fn grant(&self, epoch: u64, instance: &str, resumed: bool) {
        let granted = v1::Granted { epoch, engine_instance: instance.into(), resumed };
        self.send(watch_event::Event::Granted(granted)).await;
    }

    pub(crate) async fn snapshot(&self, snapshot: v1::EngineSnapshot) {
        self.send(watch_event::Event::Snapshot(snapshot)).await;
    }

    /// The records go on after this one.
    pub(crate) fn continue_after(&mut self, record: u64) {
        self.record = record;
    }

    async fn lifecycle(&mut self, request_id: &str, event: v1::lifecycle::Event) {
        self.record += 1;
        let lifecycle = v1::Lifecycle { request_id: request_id.into(), event: Some(event) };
        let event = Some(v1::record::Event::Lifecycle(lifecycle));
        let record = v1::Record { number: self.record, at_us: 0, event };
        self.send(watch_event::Event::Record(record)).await;
    }

    pub(crate) async fn submitted(&mut self, request_id: &str) {
        let submitted = v1::Submitted {
            prompt_tokens: 100,
            max_tokens: 50,
            tier: v1::Tier::BestEffort.into(),
            leased: true,
            ..Default::default()
        };
        self.lifecycle(request_id, v1::lifecycle::Event::Submitted(submitted)).await;
    }

    pub(crate) async fn finished(&mut self, request_id: &str) {
        let finished = v1::Finished {
            reason: v1::FinishReason::Stop.into(),
            usage: Some(v1::Usage { completion_tokens: 9, ..Default::default() }),
            timings: Some(v1::Timings {
                first_token_us: Some(2_000),
                finished_us: 5_000,
                ..Default::default()
            }),
            message: String::new(),
        };
        self.lifecycle(request_id, v1::lifecycle::Event::Finished(finished)).await;
    }

    /// The next message of the watcher; `None` when it has hung up.
    pub(crate) async fn next(&mut self) -> Option<watch_request::Message> {
        self.pings.message().await.ok().flatten().and_then(|it| it.message)
    }
}

/// An empty engine of 4 slots.
pub(crate) fn snapshot(instance: &str) -> v1::EngineSnapshot {
    v1::EngineSnapshot {
        engine_instance: instance.into(),
        limits: Some(v1::EngineLimits {
            slots: 4,
            context_tokens: 1_000,
            batch_tokens: 512,
            prefill_tokens: 256,
            step_us: 500_000,
            waiting: 16,
            unleased: 4,
            kv_blocks: 256,
            kv_block_tokens: 16,
        }),
        kv: Some(v1::KvUsage { total: 256, free: 256, ..Default::default() }),
        ..Default::default()
    }
}
