//! An engine that follows a script.

use std::{
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::Stream;
use proto::v1::{
    Accepted, ControlRequest, ControlResponse, Delta, EngineLimits, FinishReason, Finished,
    GenerateEvent, GenerateRequest, InfoRequest, InfoResponse, ModelInfo, PrepareRequest,
    PrepareResponse, Tier, TokenIds, TokenLogprob, Usage, WatchEvent, WatchRequest,
    engine_server::{Engine, EngineServer},
    generate_event::Event,
};
use tokio::{sync::mpsc, time::timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming, transport::Server as Grpc};

use super::{
    LONG,
    server::{Log, Server},
};

pub(crate) const MODEL: &str = "org/tiny";
pub(crate) const CONTEXT_TOKENS: u32 = 1_000;

/// What the engine does in answer to a `Generate`, in order.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Accept(Tier),
    /// One token with this text, perhaps none.
    Token(&'static str),
    /// One token with its log probability.
    Likely(TokenLogprob),
    Finish(FinishReason),
    Fail(Status),
    /// Waits until the gateway goes away, and notes it.
    Hang,
}

/// What the engine does in answer to a `Prepare`.
#[derive(Clone, Debug)]
pub(crate) enum Preparing {
    /// Finds this many tokens in the prompt, 3 of them cached.
    Tokens(u32),
    Fail(Status),
    Hang,
}

/// What the engine has seen.
#[derive(Debug)]
pub(crate) enum EngineSaw {
    Prepare(PrepareRequest),
    Generate(Box<GenerateRequest>),
    /// A call that hung was given up.
    Dropped,
}

#[derive(Clone)]
struct Script {
    info: InfoResponse,
    preparing: Preparing,
    /// Scripts of the next calls; the last is used again and again.
    steps: Vec<Vec<Step>>,
    hang_info: bool,
    /// How often it was asked how it is.
    asked: u32,
}

pub(crate) struct FakeEngine {
    server: Server,
    script: Arc<Mutex<Script>>,
    log: Arc<Log<EngineSaw>>,
}

/// The steps of a good answer.
pub(crate) fn answer(tokens: &[&'static str]) -> Vec<Step> {
    let mut steps = vec![Step::Accept(Tier::Promised)];
    steps.extend(tokens.iter().map(|text| Step::Token(text)));
    steps.push(Step::Finish(FinishReason::Stop));
    steps
}

impl FakeEngine {
    /// An engine that answers "Hello" to everything.
    pub(crate) fn start() -> Self {
        Self::start_at(([127, 0, 0, 1], 0).into())
    }

    pub(crate) fn start_at(address: SocketAddr) -> Self {
        let info = InfoResponse {
            engine_instance: "engine-1".into(),
            version: "0.1.0".into(),
            model: Some(ModelInfo {
                id: MODEL.into(),
                sha256: "0123456789abcdef".into(),
                created: 1_700_000_000,
                vocabulary: 1_000,
                ..ModelInfo::default()
            }),
            limits: Some(EngineLimits {
                context_tokens: CONTEXT_TOKENS,
                ..EngineLimits::default()
            }),
            ..InfoResponse::default()
        };
        let steps = vec![answer(&["Hel", "lo"])];
        let preparing = Preparing::Tokens(10);
        let script = Script { info, preparing, steps, hang_info: false, asked: 0 };
        let script = Arc::new(Mutex::new(script));
        let log = Arc::new(Log::new());
        let service = Service { script: Arc::clone(&script), log: log.sender() };
        let service = EngineServer::new(service).max_decoding_message_size(64 << 20);
        let server = Server::start(address, Grpc::builder().add_service(service));
        Self { server, script, log }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.server.address
    }

    /// Ends it at once, connections and all.
    pub(crate) fn kill(&self) {
        self.server.kill();
    }

    pub(crate) fn will(&self, steps: Vec<Step>) {
        self.script.lock().expect("no panic").steps = vec![steps];
    }

    /// Scripts one call after the other.
    pub(crate) fn will_in_turn(&self, steps: Vec<Vec<Step>>) {
        self.script.lock().expect("no panic").steps = steps;
    }

    pub(crate) fn prepares(&self, preparing: Preparing) {
        self.script.lock().expect("no panic").preparing = preparing;
    }

    pub(crate) fn says(&self, change: impl FnOnce(&mut InfoResponse)) {
        change(&mut self.script.lock().expect("no panic").info);
    }

    pub(crate) fn hangs_on_info(&self, hangs: bool) {
        self.script.lock().expect("no panic").hang_info = hangs;
    }

    /// Returns when the gateway has found out how it is by now.
    pub(crate) async fn is_known(&self) {
        let asked = || self.script.lock().expect("no panic").asked;
        let before = asked();
        let poll = async {
            // Who asks again has read the last answer.
            while asked() < before + 2 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(LONG, poll).await.expect("nobody asks");
    }

    /// The next thing that it has seen.
    pub(crate) async fn saw(&self) -> EngineSaw {
        self.log.next().await
    }

    pub(crate) async fn saw_prepare(&self) -> PrepareRequest {
        let saw = self.saw().await;
        let EngineSaw::Prepare(request) = saw else { panic!("{saw:?}") };
        request
    }

    pub(crate) async fn saw_generate(&self) -> GenerateRequest {
        let saw = self.saw().await;
        let EngineSaw::Generate(request) = saw else { panic!("{saw:?}") };
        *request
    }

    pub(crate) async fn saw_drop(&self) {
        let saw = self.saw().await;
        assert!(matches!(saw, EngineSaw::Dropped), "{saw:?}");
    }

    pub(crate) fn saw_nothing(&self) -> bool {
        self.log.is_empty()
    }
}

struct Service {
    script: Arc<Mutex<Script>>,
    log: mpsc::UnboundedSender<EngineSaw>,
}

impl Service {
    fn script(&self) -> Script {
        self.script.lock().expect("no panic").clone()
    }

    fn note(&self, saw: EngineSaw) {
        let _ = self.log.send(saw);
    }
}

/// Notes that a call was given up.
struct NoteDrop(mpsc::UnboundedSender<EngineSaw>);

impl Drop for NoteDrop {
    fn drop(&mut self) {
        let _ = self.0.send(EngineSaw::Dropped);
    }
}

#[tonic::async_trait]
impl Engine for Service {
    type GenerateStream = ReceiverStream<Result<GenerateEvent, Status>>;
    type WatchStream = Pin<Box<dyn Stream<Item = Result<WatchEvent, Status>> + Send>>;

    async fn prepare(
        &self,
        request: Request<PrepareRequest>,
    ) -> Result<Response<PrepareResponse>, Status> {
        let request = request.into_inner();
        let ids = request.return_token_ids;
        self.note(EngineSaw::Prepare(request));
        match self.script().preparing {
            Preparing::Tokens(prompt_tokens) => Ok(Response::new(PrepareResponse {
                prompt_tokens,
                cached_tokens: 3,
                room_tokens: CONTEXT_TOKENS.saturating_sub(prompt_tokens),
                held_us: 10_000_000,
                engine_instance: "engine-1".into(),
                token_ids: ids.then(|| TokenIds { ids: (0..prompt_tokens).collect() }),
                ..PrepareResponse::default()
            })),
            Preparing::Fail(status) => Err(status),
            Preparing::Hang => {
                let _note = NoteDrop(self.log.clone());
                std::future::pending().await
            }
        }
    }

    async fn generate(
        &self,
        request: Request<GenerateRequest>,
    ) -> Result<Response<Self::GenerateStream>, Status> {
        self.note(EngineSaw::Generate(Box::new(request.into_inner())));
        let steps = {
            let script = &mut self.script.lock().expect("no panic");
            if script.steps.len() > 1 { script.steps.remove(0) } else { script.steps[0].clone() }
        };
        if let [Step::Fail(status)] = steps.as_slice() {
            return Err(status.clone());
        }
        // One event may wait: a test sees back-pressure soon.
        let (sender, receiver) = mpsc::channel(1);
        tokio::spawn(follow(steps, sender, self.log.clone()));
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    async fn info(&self, _: Request<InfoRequest>) -> Result<Response<InfoResponse>, Status> {
        let script = {
            let script = &mut self.script.lock().expect("no panic");
            script.asked += 1;
            script.clone()
        };
        if script.hang_info {
            return std::future::pending().await;
        }
        Ok(Response::new(script.info))
    }

    async fn watch(
        &self,
        _: Request<Streaming<WatchRequest>>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        Err(Status::unimplemented("the gateway does not watch"))
    }

    async fn control(
        &self,
        _: Request<ControlRequest>,
    ) -> Result<Response<ControlResponse>, Status> {
        Err(Status::unimplemented("the gateway does not control"))
    }
}

async fn follow(
    steps: Vec<Step>,
    events: mpsc::Sender<Result<GenerateEvent, Status>>,
    log: mpsc::UnboundedSender<EngineSaw>,
) {
    let mut completion_tokens = 0;
    for step in steps {
        let event = match step {
            Step::Accept(tier) => Event::Accepted(Accepted { tier: tier.into(), leased: true }),
            Step::Token(text) => {
                completion_tokens += 1;
                Event::Delta(Delta { text: text.into(), tokens: 1, ..Delta::default() })
            }
            Step::Likely(token) => {
                completion_tokens += 1;
                let text = String::from_utf8(token.bytes.clone()).expect("whole characters");
                Event::Delta(Delta { text, tokens: 1, logprobs: vec![token] })
            }
            Step::Finish(reason) => Event::Finished(Finished {
                reason: reason.into(),
                usage: Some(Usage { prompt_tokens: 10, completion_tokens, cached_tokens: 3 }),
                timings: None,
                message: "the backend broke".into(),
            }),
            Step::Fail(status) => {
                let _ = events.send(Err(status)).await;
                return;
            }
            Step::Hang => {
                events.closed().await;
                let _ = log.send(EngineSaw::Dropped);
                return;
            }
        };
        if events.send(Ok(GenerateEvent { event: Some(event) })).await.is_err() {
            let _ = log.send(EngineSaw::Dropped);
            return;
        }
    }
}
