//! What happens to every request, whatever its path: an id, cross-origin headers, a log line, and the
//! accounts of what is in flight.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use actix_web::{
    Error, HttpMessage as _,
    body::{BodySize, BoxBody, MessageBody},
    dev::{ServiceRequest, ServiceResponse},
    http::{
        Method, StatusCode,
        header::{HeaderMap, HeaderName, HeaderValue},
    },
    middleware::Next,
    web::{Bytes, Data},
};
use tracing::{debug, info};
use units::{Micros, RequestId, Span};

use crate::{
    body::Unread,
    cors, metrics,
    shared::{Gateway, Shared},
};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The routes whose requests have a body that is read, and are waited for by a draining process.
const CHAT: &str = "chat";
const COMPLETIONS: &str = "completions";
/// A client's own id is logged up to this many characters.
const ALIAS_CHARS: usize = 64;

/// Who a request is and when its head was there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) id: RequestId,
    pub(crate) at: Micros,
}

/// Wraps every request.
pub(crate) async fn wrap(
    mut request: ServiceRequest,
    next: Next<BoxBody>,
) -> Result<ServiceResponse<Tracked>, Error> {
    let gateway = request.app_data::<Data<Gateway>>().expect("the application has its data");
    let shared = Arc::clone(&gateway.shared);
    let id = RequestId(uuid::Uuid::now_v7().as_u128());
    let arrival = Arrival { id, at: shared.clock.now() };
    request.extensions_mut().insert(arrival);
    let mut flight = Flight::begin(shared, arrival, route(request.path()));

    // Only a generating request has a body that somebody reads.
    let ignored = (!generates(flight.route)).then(|| Unread(request.take_payload()));

    let mut response = if request.method() == Method::OPTIONS {
        let answer = cors::preflight(request.headers());
        request.into_response(answer)
    } else {
        next.call(request).await?
    };
    flight.answered(response.status(), alias(response.request().headers()));
    cors::allow(response.headers_mut());
    let id = HeaderValue::try_from(id.to_string()).expect("hexadecimal digits are a header value");
    response.headers_mut().insert(REQUEST_ID, id);
    let unread = ignored.or_else(|| response.request().extensions_mut().remove());
    Ok(response.map_body(|_, body| Tracked::new(body, flight, unread)))
}

/// The route's name in metrics: one of a fixed set. The path has been normalised.
fn route(path: &str) -> &'static str {
    match path {
        "/v1/chat/completions" => CHAT,
        "/v1/completions" => COMPLETIONS,
        "/v1/models" => "models",
        "/health" => "health",
        "/ready" => "ready",
        "/metrics" => "metrics",
        "/version" => "version",
        other if other.starts_with("/v1/models/") => "model",
        _ => "other",
    }
}

fn generates(route: &str) -> bool {
    route == CHAT || route == COMPLETIONS
}

/// The client's own id, fit for a log.
fn alias(headers: &HeaderMap) -> Option<String> {
    let text = headers.get(REQUEST_ID)?.to_str().ok()?;
    let plain = |char: &char| char.is_ascii_alphanumeric() || "-_.:".contains(*char);
    Some(text.chars().filter(plain).take(ALIAS_CHARS).collect())
}

/// A request without a complete answer.
#[derive(Debug)]
struct Flight {
    shared: Arc<Shared>,
    arrival: Arrival,
    route: &'static str,
    status: Option<StatusCode>,
    alias: Option<String>,
    complete: bool,
}

impl Flight {
    fn begin(shared: Arc<Shared>, arrival: Arrival, route: &'static str) -> Self {
        metrics::flight_began(route);
        if generates(route) {
            shared.flights.begin();
        }
        Self { shared, arrival, route, status: None, alias: None, complete: false }
    }

    fn answered(&mut self, status: StatusCode, alias: Option<String>) {
        self.status = Some(status);
        self.alias = alias;
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
        metrics::flight_ended(self.route, outcome);
        if generates(self.route) {
            self.shared.flights.end();
        }
        let took: Span = self.shared.clock.now().since(self.arrival.at);
        let (id, status) = (self.arrival.id, self.status.map_or(0, |status| status.as_u16()));
        let alias = self.alias.as_deref().unwrap_or_default();
        if generates(self.route) {
            info!(%id, alias, status, outcome, %took, "{}", self.route);
        } else {
            debug!(%id, alias, status, outcome, %took, route = self.route, "request");
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
    fn new(body: BoxBody, mut flight: Flight, unread: Option<Unread>) -> Self {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_are_a_fixed_set() {
        assert_eq!(route("/v1/chat/completions"), "chat");
        assert_eq!(route("/v1/models/a/b"), "model");
        assert_eq!(route("/v1/models"), "models");
        assert_eq!(route("/../etc/passwd"), "other");
    }

    #[test]
    fn a_client_s_id_cannot_forge_a_log() {
        let mut headers = HeaderMap::new();
        let evil = format!("a b\t\"{{}}c-1{}", "x".repeat(200));
        headers.insert(REQUEST_ID, HeaderValue::try_from(evil).expect("a value"));
        let alias = alias(&headers).expect("an alias");
        assert!(alias.starts_with("abc-1xxx"), "{alias}");
        assert_eq!(alias.len(), ALIAS_CHARS);
    }
}
