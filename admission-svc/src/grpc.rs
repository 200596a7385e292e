//! The gRPC service: checks what callers send, asks the actor, words the answer.

use std::{pin::Pin, sync::Arc, time::Duration};

use actix::{Addr, MailboxError, dev::SendError};
use futures_util::{Stream, StreamExt as _, TryStreamExt as _, stream};
use proto::v1::{self, admission_server};
use service::clock::{self, Clock};
use tokio::{runtime::Handle, sync::oneshot, time::timeout};
use tonic::{Request, Response, Status};

use crate::{
    actor::Admission,
    convert,
    guard::WithdrawOnDrop,
    message::{Decide, Observe, ReadState, ReadTraces},
    metrics, reply,
    settings::Settings,
    traces::Reading,
};

/// Trace rows that are fetched at once.
const CHUNK: usize = 256;
/// A page is a read of some hundred kilobytes; a database may have to be opened for it.
const PAGE_WITHIN: Duration = Duration::from_secs(30);

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
        let offer = convert::offer(request.into_inner(), asked_at, clock::unix_now())?;
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
        let start = (self.actor.clone(), Some(request.into_inner().after), None);
        let pages = stream::try_unfold(start, |(actor, after, end)| async move {
            let Some(after) = after else { return Ok(None) };
            let Reading { mut page, numbered } = page(&actor, after).await?;
            // Rows that come meanwhile belong to the next export, or this one might never end.
            let end = end.unwrap_or(numbered);
            page.rows.retain(|row| row.number <= end);
            let next = page.next.filter(|next| *next < end);
            Ok::<_, Status>(Some((page.rows, (actor, next, Some(end)))))
        });
        let rows = pages.map_ok(|rows| stream::iter(rows.into_iter().map(Ok)));
        Ok(Response::new(rows.try_flatten().boxed()))
    }
}

async fn page(actor: &Addr<Admission>, after: u64) -> Result<Reading, Status> {
    let (answer, page) = oneshot::channel();
    actor.send(ReadTraces { after, limit: CHUNK, answer }).await.map_err(ended)?;
    match timeout(PAGE_WITHIN, page).await {
        Ok(Ok(Ok(page))) => Ok(page),
        Ok(Ok(Err(error))) => Err(Status::unavailable(error.to_string())),
        Ok(Err(_)) => Err(Status::unavailable("too many rows are to be written first")),
        Err(_) => Err(Status::unavailable("the trace store does not answer")),
    }
}
