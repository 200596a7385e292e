//! The gRPC service: checks what callers send, asks the actor, words the answer.

use std::{pin::Pin, sync::Arc};

use actix::{Addr, MailboxError, dev::SendError};
use futures_util::{Stream, StreamExt as _, TryStreamExt as _, stream};
use proto::v1::{self, admission_server};
use service::clock::Clock;
use tokio::{runtime::Handle, sync::oneshot};
use tonic::{Request, Response, Status};

use crate::{
    actor::Admission,
    convert,
    guard::WithdrawOnDrop,
    message::{Decide, Observe, ReadState, ReadTraces},
    metrics, reply,
    settings::Settings,
};

/// Trace rows that are fetched from the actor at once.
const CHUNK: usize = 256;

/// What callers talk to. Cheap to share; holds no state of its own.
pub(crate) struct Service {
    pub(crate) actor: Addr<Admission>,
    pub(crate) clock: Clock,
    pub(crate) settings: Arc<Settings>,
    pub(crate) runtime: Handle,
    pub(crate) decide_seconds: ::metrics::Histogram,
}

impl Service {
    pub(crate) fn new(actor: Addr<Admission>, clock: Clock, settings: Arc<Settings>) -> Self {
        let decide_seconds = metrics::decide_seconds();
        Self { actor, clock, settings, runtime: Handle::current(), decide_seconds }
    }

    fn policy(&self) -> &'static str {
        self.settings.controller().policy.name()
    }
}

fn ended(_: MailboxError) -> Status {
    Status::unavailable("admission has ended")
}

#[tonic::async_trait]
impl admission_server::Admission for Service {
    async fn decide(
        &self,
        request: Request<v1::DecideRequest>,
    ) -> Result<Response<v1::DecideResponse>, Status> {
        let asked_at = self.clock.now();
        let offer = convert::offer(request.into_inner(), asked_at)?;
        let attempt = offer.attempt;
        let (answer, verdict) = oneshot::channel();
        self.actor.try_send(Decide { offer, answer }).map_err(|error| match error {
            SendError::Full(_) => Status::resource_exhausted("too many calls are waiting"),
            SendError::Closed(_) => ended(MailboxError::Closed),
        })?;
        let guard = WithdrawOnDrop::new(self.actor.clone(), attempt, self.runtime.clone());
        let verdict = verdict.await.map_err(|_| ended(MailboxError::Closed))?;
        guard.disarm();
        self.decide_seconds.record(self.clock.now().since(asked_at).as_secs_f64());
        reply::decided(verdict, attempt, self.policy()).map(Response::new)
    }

    async fn observe(
        &self,
        request: Request<v1::ObserveRequest>,
    ) -> Result<Response<v1::ObserveResponse>, Status> {
        let (attempt, observation) = convert::observation(&request.into_inner())?;
        let known = self.actor.send(Observe(attempt, observation)).await.map_err(ended)?;
        Ok(Response::new(v1::ObserveResponse { known }))
    }

    async fn policy(
        &self,
        _: Request<v1::PolicyRequest>,
    ) -> Result<Response<v1::PolicyResponse>, Status> {
        let state = self.actor.send(ReadState).await.map_err(ended)?;
        Ok(Response::new(reply::policy(state, &self.settings)))
    }

    type ExportTracesStream = Pin<Box<dyn Stream<Item = Result<v1::TraceRow, Status>> + Send>>;

    async fn export_traces(
        &self,
        request: Request<v1::ExportTracesRequest>,
    ) -> Result<Response<Self::ExportTracesStream>, Status> {
        let policy = self.policy();
        let chunks = stream::try_unfold(
            (self.actor.clone(), Some(request.into_inner().after)),
            |(actor, after)| async move {
                let Some(after) = after else { return Ok(None) };
                let read = ReadTraces { after, limit: CHUNK };
                let rows = actor.send(read).await.map_err(ended)?;
                // A short chunk is the last one; rows that close meanwhile are for the next export.
                let next = rows.last().filter(|_| rows.len() == CHUNK).map(|(number, _)| *number);
                Ok::<_, Status>(Some((rows, (actor, next))))
            },
        );
        let rows = chunks.map_ok(move |rows| {
            let rows = rows.into_iter().map(move |(number, row)| reply::row(number, &row, policy));
            stream::iter(rows.map(Ok))
        });
        Ok(Response::new(rows.try_flatten().boxed()))
    }
}
