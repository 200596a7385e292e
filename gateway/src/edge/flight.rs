//! The accounts of what is in flight.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use actix_web::{
    body::{BodySize, BoxBody, MessageBody},
    http::StatusCode,
    web::Bytes,
};
use tracing::{debug, info};
use units::Span;

use super::{Arrival, Route};
use crate::{auth::Place, body::Unread, connection::Progress, metrics, shared::Shared};

/// A request without a complete answer.
#[derive(Debug)]
pub(super) struct Flight {
    shared: Arc<Shared>,
    arrival: Arrival,
    route: Route,
    alias: Option<String>,
    status: Option<StatusCode>,
    complete: bool,
    /// Whether its connection ends with it.
    pub(super) last: bool,
    /// What it takes of its key's share.
    pub(super) place: Option<Place>,
    progress: Option<Progress>,
}

impl Flight {
    pub(super) fn begin(
        shared: Arc<Shared>,
        arrival: Arrival,
        route: Route,
        alias: Option<String>,
        progress: Option<Progress>,
    ) -> Self {
        metrics::flight_began(route.label());
        if route.generates() {
            shared.flights.begin();
        }
        Self {
            shared,
            arrival,
            route,
            alias,
            status: None,
            complete: false,
            last: false,
            place: None,
            progress,
        }
    }

    pub(super) fn answered(&mut self, status: StatusCode) {
        self.status = Some(status);
    }

    fn outcome(&self) -> &'static str {
        match self.status {
            Some(status) if self.complete => match status.as_u16() / 100 {
                2 => "2xx",
                3 => "3xx",
                4 => "4xx",
                _ => "5xx",
            },
            _ => "cancelled",
        }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        let outcome = self.outcome();
        let route = self.route.label();
        metrics::flight_ended(route, outcome);
        if self.route.generates() {
            self.shared.flights.end();
        }
        if let Some(progress) = &self.progress {
            progress.answered(self.last);
        }
        let took: Span = self.shared.clock.now().since(self.arrival.at);
        let (id, status) = (self.arrival.id, self.status.map_or(0, |status| status.as_u16()));
        let alias = self.alias.as_deref().unwrap_or_default();
        if self.route.generates() {
            info!(%id, alias, status, outcome, %took, "{route}");
        } else {
            debug!(%id, alias, status, outcome, %took, route, "request");
        }
    }
}

/// A body that knows whether it went out to its end.
pub(crate) struct Tracked {
    body: BoxBody,
    flight: Flight,
    _unread: Option<Unread>,
}

impl Tracked {
    pub(super) fn new(body: BoxBody, mut flight: Flight, unread: Option<Unread>) -> Self {
        // An empty body is never asked for its end.
        flight.complete = matches!(body.size(), BodySize::None | BodySize::Sized(0));
        Self { body, flight, _unread: unread }
    }
}

impl MessageBody for Tracked {
    type Error = Box<dyn std::error::Error>;

    fn size(&self) -> BodySize {
        self.body.size()
    }

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Self::Error>>> {
        let next = Pin::new(&mut self.body).poll_next(context);
        if matches!(next, Poll::Ready(None)) {
            self.flight.complete = true;
        }
        next
    }
}
