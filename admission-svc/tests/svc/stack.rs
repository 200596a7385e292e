//! The service in this process, on a free port, and a client of it.

use std::time::Duration;

use admission_svc::{App, Settings};
use proto::v1::{
    self, DecideResponse, PolicyResponse, admission_client::AdmissionClient,
    decide_response::Verdict,
};
use service::settings::{Request, read};
use tokio::{sync::oneshot, task::JoinHandle, time::timeout};
use tonic::{Status, transport::Channel};

pub(crate) struct Stack {
    pub(crate) client: AdmissionClient<Channel>,
    stop: Option<oneshot::Sender<()>>,
    running: JoinHandle<anyhow::Result<()>>,
}

/// Nothing here takes longer unless it is broken.
pub(crate) const SOON: Duration = Duration::from_secs(10);

impl Stack {
    /// With flags as on the command line.
    pub(crate) async fn start(flags: &[&str]) -> Self {
        let args = ["admission-svc", "--metrics-listen", ""].iter().chain(flags);
        let settings = match read::<Settings>(args.map(Into::into), &Default::default()) {
            Ok(Request::Run(settings)) => settings,
            Ok(Request::Print(text)) => panic!("{text}"),
            Ok(Request::Healthcheck(probe)) => panic!("{probe:?}"),
            Err(error) => panic!("{error}"),
        };
        let listener = service::net::bind(([127, 0, 0, 1], 0).into()).expect("a free port");
        let address = listener.local_addr().expect("bound").to_string();
        let app = App::build(settings, listener).expect("built");
        let (stop, stopped) = oneshot::channel::<()>();
        let running = tokio::spawn(app.run(async { drop(stopped.await) }));
        let channel = service::grpc::connect_lazily(&address).expect("an address");
        let client = AdmissionClient::new(channel);
        Self { client, stop: Some(stop), running }
    }

    pub(crate) async fn alone() -> Self {
        Self::start(&["--engine", ""]).await
    }

    pub(crate) async fn decide(
        &self,
        request: v1::DecideRequest,
    ) -> Result<DecideResponse, Status> {
        let mut client = self.client.clone();
        let answer = timeout(SOON, client.decide(request)).await.expect("an answer soon");
        answer.map(tonic::Response::into_inner)
    }

    /// A call that goes on beside the test.
    pub(crate) fn deciding(
        &self,
        request: v1::DecideRequest,
    ) -> JoinHandle<Result<DecideResponse, Status>> {
        let mut client = self.client.clone();
        tokio::spawn(async move { client.decide(request).await.map(tonic::Response::into_inner) })
    }

    pub(crate) async fn policy(&self) -> PolicyResponse {
        self.client.clone().policy(v1::PolicyRequest {}).await.expect("a policy").into_inner()
    }

    /// Waits until the policy looks as it should.
    pub(crate) async fn until(&self, looks: impl Fn(&PolicyResponse) -> bool) -> PolicyResponse {
        let mut last = None;
        let waiting = async {
            loop {
                let policy = self.policy().await;
                if looks(&policy) {
                    return policy;
                }
                last = Some(policy);
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        match timeout(SOON, waiting).await {
            Ok(policy) => policy,
            Err(_) => panic!("it stayed {last:#?}"),
        }
    }

    pub(crate) async fn attached(&self) {
        self.until(|policy| policy.engines.iter().all(|it| it.epoch > 0)).await;
    }

    pub(crate) async fn traces(&self, after: u64) -> Vec<v1::TraceRow> {
        let request = v1::ExportTracesRequest { after };
        let mut rows = self.client.clone().export_traces(request).await.expect("rows").into_inner();
        let mut all = Vec::new();
        while let Some(row) = rows.message().await.expect("a row") {
            all.push(row);
        }
        all
    }

    pub(crate) fn stop(&mut self) {
        drop(self.stop.take());
    }

    /// Waits for the end of a stopped service.
    pub(crate) async fn ended(self) {
        let ended = timeout(SOON, self.running).await.expect("an end soon");
        ended.expect("no panic").expect("a clean end");
    }
}

/// The id of a request, by a small number.
pub(crate) fn id(number: u32) -> String {
    format!("{number:032x}")
}

/// 100 tokens of prompt and at most 50 of answer, for the engine `e1`.
pub(crate) fn ask(number: u32) -> v1::DecideRequest {
    v1::DecideRequest {
        request_id: id(number),
        candidates: vec![v1::Candidate { engine_instance: "e1".into(), ..Default::default() }],
        prompt_tokens: 100,
        max_tokens: 50,
        ..Default::default()
    }
}

pub(crate) fn at_once(request: v1::DecideRequest) -> v1::DecideRequest {
    v1::DecideRequest { patience_us: Some(0), ..request }
}

pub(crate) fn admitted(answer: Result<DecideResponse, Status>) -> v1::Admitted {
    match answer.expect("a verdict").verdict.expect("a verdict") {
        Verdict::Admitted(admitted) => admitted,
        Verdict::Refused(refused) => panic!("{refused:?}"),
    }
}

pub(crate) fn refused(answer: Result<DecideResponse, Status>) -> v1::Refused {
    match answer.expect("a verdict").verdict.expect("a verdict") {
        Verdict::Refused(refused) => refused,
        Verdict::Admitted(admitted) => panic!("{admitted:?}"),
    }
}
