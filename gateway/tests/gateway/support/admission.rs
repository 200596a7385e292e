//! An admission service that follows a script.

use std::{
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, Mutex},
};

use futures_util::Stream;
use proto::v1::{
    Admitted, Budget, DecideRequest, DecideResponse, EngineView, ExportTracesRequest,
    ObserveRequest, ObserveResponse, PolicyRequest, PolicyResponse, Refused, Tier, TraceRow,
    admission_server::{Admission, AdmissionServer},
    decide_response,
};
use tokio::sync::mpsc;
use tonic::{Request, Response, Status, transport::Server as Grpc};

use super::server::{Log, Server};

/// What it answers.
#[derive(Clone, Debug)]
pub(crate) enum Verdict {
    Admit(Admitted),
    Refuse(Refused),
    Fail(Status),
    /// Waits until the gateway goes away, and notes it.
    Hang,
}

/// What it has seen.
#[derive(Debug)]
pub(crate) enum AdmissionSaw {
    Decide(DecideRequest),
    /// A call that hung was given up.
    Dropped,
}

pub(crate) struct FakeAdmission {
    server: Server,
    verdicts: Arc<Mutex<Vec<Verdict>>>,
    log: Arc<Log<AdmissionSaw>>,
}

/// A promise of 2 s, made in epoch 7.
pub(crate) fn admitted() -> Admitted {
    Admitted {
        tier: Tier::Promised.into(),
        epoch: 7,
        lease_us: 2_000_000,
        budget: Some(Budget { e2e_us: Some(60_000_000), ttft_us: None }),
        bound_us: Some(2_000_000),
        confidence: Some(0.9),
        ..Admitted::default()
    }
}

impl FakeAdmission {
    /// A service that admits everything.
    pub(crate) fn start() -> Self {
        Self::start_at(([127, 0, 0, 1], 0).into())
    }

    pub(crate) fn start_at(address: SocketAddr) -> Self {
        let verdicts = Arc::new(Mutex::new(vec![Verdict::Admit(admitted())]));
        let log = Arc::new(Log::new());
        let service = Service { verdicts: Arc::clone(&verdicts), log: log.sender() };
        let router = Grpc::builder().add_service(AdmissionServer::new(service));
        Self { server: Server::start(address, router), verdicts, log }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.server.address
    }

    /// Ends it at once, connections and all.
    pub(crate) fn kill(&self) {
        self.server.kill();
    }

    pub(crate) fn will(&self, verdict: Verdict) {
        self.will_in_turn(vec![verdict]);
    }

    /// Scripts one call after the other; the last is used again and again.
    pub(crate) fn will_in_turn(&self, verdicts: Vec<Verdict>) {
        *self.verdicts.lock().expect("no panic") = verdicts;
    }

    pub(crate) async fn saw(&self) -> AdmissionSaw {
        self.log.next().await
    }

    pub(crate) async fn saw_decide(&self) -> DecideRequest {
        match self.saw().await {
            AdmissionSaw::Decide(request) => request,
            AdmissionSaw::Dropped => panic!("a dropped call"),
        }
    }

    pub(crate) fn saw_nothing(&self) -> bool {
        self.log.is_empty()
    }
}

struct Service {
    verdicts: Arc<Mutex<Vec<Verdict>>>,
    log: mpsc::UnboundedSender<AdmissionSaw>,
}

/// Notes that a call was given up.
struct NoteDrop(mpsc::UnboundedSender<AdmissionSaw>);

impl Drop for NoteDrop {
    fn drop(&mut self) {
        let _ = self.0.send(AdmissionSaw::Dropped);
    }
}

#[tonic::async_trait]
impl Admission for Service {
    type ExportTracesStream = Pin<Box<dyn Stream<Item = Result<TraceRow, Status>> + Send>>;

    async fn decide(
        &self,
        request: Request<DecideRequest>,
    ) -> Result<Response<DecideResponse>, Status> {
        let _ = self.log.send(AdmissionSaw::Decide(request.into_inner()));
        let verdict = {
            let verdicts = &mut self.verdicts.lock().expect("no panic");
            if verdicts.len() > 1 { verdicts.remove(0) } else { verdicts[0].clone() }
        };
        let verdict = match verdict {
            Verdict::Admit(admitted) => decide_response::Verdict::Admitted(admitted),
            Verdict::Refuse(refused) => decide_response::Verdict::Refused(refused),
            Verdict::Fail(status) => return Err(status),
            Verdict::Hang => {
                let _note = NoteDrop(self.log.clone());
                return std::future::pending().await;
            }
        };
        Ok(Response::new(DecideResponse { verdict: Some(verdict), ..DecideResponse::default() }))
    }

    async fn policy(&self, _: Request<PolicyRequest>) -> Result<Response<PolicyResponse>, Status> {
        let attached = EngineView { epoch: 1, ..EngineView::default() };
        Ok(Response::new(PolicyResponse { engines: vec![attached], ..PolicyResponse::default() }))
    }

    async fn observe(
        &self,
        _: Request<ObserveRequest>,
    ) -> Result<Response<ObserveResponse>, Status> {
        Err(Status::unimplemented("the gateway does not observe"))
    }

    async fn export_traces(
        &self,
        _: Request<ExportTracesRequest>,
    ) -> Result<Response<Self::ExportTracesStream>, Status> {
        Err(Status::unimplemented("the gateway does not export"))
    }
}
