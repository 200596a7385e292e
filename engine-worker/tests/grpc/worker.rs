//! A worker in this process, and a client that reads what it says.

use std::{collections::BTreeMap, time::Duration};

use engine_worker::{App, EngineSettings};
use proto::v1::{self, engine_client::EngineClient, generate_event::Event as Heard};
use service::settings::{Request, read as settings};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinHandle,
    time::timeout,
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Streaming, transport::Channel};
use units::RequestId;

pub(crate) const FAST: &[&str] =
    &["--mock-base-us", "200", "--mock-decode-us", "50", "--mock-prefill-us", "1"];
pub(crate) const SLOW: &[&str] = &["--mock-base-us", "20000"];

/// The default model, or the one that CADENCE_TEST_MODEL names.
#[cfg(feature = "llama")]
pub(crate) fn model_path() -> String {
    let fetched =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../.cache/models/SmolLM2-135M-Instruct.Q4_1.gguf");
    let path = std::env::var("CADENCE_TEST_MODEL").unwrap_or_else(|_| fetched.into());
    assert!(std::path::Path::new(&path).is_file(), "{path} is missing: run `make model` first");
    path
}

/// A running worker and a client of it.
pub(crate) struct Worker {
    pub(crate) client: EngineClient<Channel>,
    stop: oneshot::Sender<()>,
    running: JoinHandle<anyhow::Result<()>>,
}

impl Worker {
    /// On the mock, without metrics.
    pub(crate) async fn start(args: &[&str]) -> Self {
        Self::launch(&[&["--backend", "mock", "--metrics-listen", ""], args].concat()).await
    }

    /// On the real model.
    #[cfg(feature = "llama")]
    pub(crate) async fn model(args: &[&str]) -> Self {
        let path = model_path();
        let fixed = ["--model", &path, "--threads", "1", "--metrics-listen", ""];
        Self::launch(&[&fixed, args].concat()).await
    }

    /// With these arguments, on a free port.
    pub(crate) async fn launch(args: &[&str]) -> Self {
        let fixed = ["engine-worker", "--listen", "127.0.0.1:0", "--drain-ms", "50"];
        let args = fixed.iter().chain(args).map(Into::into);
        let Ok(Request::Run(settings)) = settings::<EngineSettings>(args, &BTreeMap::new()) else {
            panic!("bad settings");
        };
        let app = App::build(settings).await.expect("a worker");
        let channel = service::grpc::connect_lazily(&app.address().to_string()).expect("a channel");
        let (stop, stopped) = oneshot::channel();
        let running = tokio::spawn(app.run(async { drop(stopped.await) }));
        Self { client: EngineClient::new(channel), stop, running }
    }

    pub(crate) async fn prepare(&mut self, id: u128, text: &str) -> v1::PrepareResponse {
        let prepared = self.client.prepare(prepare(id, text)).await;
        prepared.expect("prepared").into_inner()
    }

    /// Prepares and starts a request, and takes its `accepted`.
    pub(crate) async fn generate(
        &mut self,
        request: v1::GenerateRequest,
    ) -> Result<(Streaming<v1::GenerateEvent>, v1::Accepted), tonic::Status> {
        let mut stream = self.client.generate(request).await?.into_inner();
        match stream.message().await?.and_then(|it| it.event) {
            Some(Heard::Accepted(accepted)) => Ok((stream, accepted)),
            other => panic!("the first event is {other:?}"),
        }
    }

    /// Prepares a request and runs it to its end.
    pub(crate) async fn ask(
        &mut self,
        prepare: v1::PrepareRequest,
        generate: v1::GenerateRequest,
    ) -> Answer {
        self.client.prepare(prepare).await.expect("prepared");
        let (stream, _) = self.generate(generate).await.expect("accepted");
        read(stream).await
    }

    pub(crate) async fn settles(&mut self) -> v1::InfoResponse {
        for _ in 0..200 {
            let info = self.info().await;
            if info.running + info.waiting == 0 {
                return info;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("something still runs");
    }

    pub(crate) async fn info(&mut self) -> v1::InfoResponse {
        self.client.info(v1::InfoRequest {}).await.expect("info").into_inner()
    }

    pub(crate) async fn watch(
        &mut self,
        hello: v1::Hello,
    ) -> Result<(Streaming<v1::WatchEvent>, mpsc::Sender<v1::WatchRequest>), tonic::Status> {
        let (say, said) = mpsc::channel(8);
        let message = Some(v1::watch_request::Message::Hello(hello));
        say.send(v1::WatchRequest { message }).await.expect("room");
        let stream = self.client.watch(ReceiverStream::new(said)).await?.into_inner();
        Ok((stream, say))
    }

    pub(crate) async fn stop(self) {
        self.stop.send(()).expect("it runs");
        let ended = timeout(Duration::from_secs(5), self.running).await.expect("it ends");
        ended.expect("no panic").expect("no error");
    }
}

pub(crate) fn id(id: u128) -> String {
    RequestId(id).to_string()
}

pub(crate) fn prepare(number: u128, text: &str) -> v1::PrepareRequest {
    v1::PrepareRequest {
        request_id: id(number),
        input: Some(v1::prepare_request::Input::Text(text.into())),
        return_token_ids: false,
    }
}

pub(crate) fn prepared(number: u128, max_tokens: u32) -> v1::GenerateRequest {
    v1::GenerateRequest {
        request_id: id(number),
        prompt: Some(v1::generate_request::Prompt::Prepared(true)),
        max_tokens,
        ..Default::default()
    }
}

pub(crate) fn promiser() -> v1::Hello {
    let role = v1::hello::Role::Promiser.into();
    v1::Hello { instance: "test".into(), role, ..Default::default() }
}

/// A whole answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) deltas: Vec<v1::Delta>,
    pub(crate) finished: v1::Finished,
}

impl Answer {
    pub(crate) fn text(&self) -> String {
        self.deltas.iter().map(|delta| delta.text.as_str()).collect()
    }

    /// The log probabilities of all tokens.
    pub(crate) fn logprobs(&self) -> Vec<&v1::TokenLogprob> {
        self.deltas.iter().flat_map(|delta| &delta.logprobs).collect()
    }

    /// Their tokens' text.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.logprobs().into_iter().flat_map(|it| it.bytes.clone()).collect()
    }
}

pub(crate) async fn read(mut stream: Streaming<v1::GenerateEvent>) -> Answer {
    let mut deltas = Vec::new();
    loop {
        let event = stream.message().await.expect("no error").expect("an event");
        match event.event {
            Some(Heard::Delta(delta)) => deltas.push(delta),
            Some(Heard::Finished(finished)) => {
                assert!(stream.message().await.expect("no error").is_none(), "finished is last");
                return Answer { deltas, finished };
            }
            other => panic!("{other:?}"),
        }
    }
}

pub(crate) async fn collect(stream: Streaming<v1::GenerateEvent>) -> (String, v1::Finished) {
    let answer = read(stream).await;
    (answer.text(), answer.finished)
}
