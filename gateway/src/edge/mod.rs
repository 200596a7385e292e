//! What happens to every request, whatever its path: an id, cross-origin headers, the question who
//! asks, a log line, and the accounts of what is in flight.

mod flight;
mod route;

use std::sync::Arc;

use actix_http::ConnectionType;
use actix_web::{
    Error, HttpMessage as _, HttpResponse, ResponseError as _,
    body::{BodySize, BoxBody, MessageBody as _},
    dev::{Payload, ServiceRequest, ServiceResponse},
    http::{
        Method, Version,
        header::{self, HeaderMap, HeaderName, HeaderValue},
    },
    middleware::Next,
    web::Data,
};
use units::{Micros, RequestId};

use crate::{
    auth::Place,
    body::Unread,
    connection::Progress,
    cors,
    error::ApiError,
    shared::{Gateway, Shared},
};
use flight::{Flight, Tracked};
pub(crate) use route::Route;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// A client's own id is logged up to this many characters.
const ALIAS_CHARS: usize = 64;

/// Who a request is and when its head was there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) id: RequestId,
    pub(crate) at: Micros,
}

/// A fresh id.
pub(crate) fn new_id() -> RequestId {
    RequestId(uuid::Uuid::now_v7().as_u128())
}

/// Tells a response's id.
pub(crate) fn mark(headers: &mut HeaderMap, id: RequestId) {
    let id = HeaderValue::try_from(id.to_string()).expect("hexadecimal digits are a header value");
    headers.insert(REQUEST_ID, id);
}

/// Wraps every request.
pub(crate) async fn wrap(
    mut request: ServiceRequest,
    next: Next<BoxBody>,
) -> Result<ServiceResponse<Tracked>, Error> {
    let gateway = request.app_data::<Data<Gateway>>().expect("the application has its data");
    let shared = Arc::clone(&gateway.shared);
    let arrival = Arrival { id: new_id(), at: shared.clock.now() };
    request.extensions_mut().insert(arrival);
    // The decoded path, which is what the router goes by.
    let route = Route::of(request.match_info().as_str());
    let progress = request.conn_data::<Progress>().cloned();
    if let Some(progress) = &progress {
        progress.head_done(!matches!(request.parts_mut().1, Payload::None));
    }
    let alias = alias(request.headers());
    let mut flight = Flight::begin(Arc::clone(&shared), arrival, route, alias, progress);
    let asked = Asked::of(&request);

    let early = match enter(&request, &shared, route, arrival.at) {
        Ok(Entry::Preflight(answer)) => Some(answer),
        Ok(Entry::Handler(place)) => {
            flight.place = place;
            None
        }
        Err(error) => Some(error.error_response()),
    };
    let reads = early.is_none() && asks(&request, route);
    let ignored = (!reads).then(|| Unread(request.take_payload()));
    let mut response = match early {
        Some(answer) => request.into_response(answer),
        None => next.call(request).await?,
    };

    let unread = ignored.or_else(|| response.request().extensions_mut().remove());
    let unread = settle(&mut response, unread, &asked).await;
    flight.last = closes(&response);
    flight.answered(response.status());
    shared.cors.allow(asked.origin.as_ref(), response.headers_mut());
    mark(response.headers_mut(), arrival.id);
    Ok(response.map_body(|_, body| Tracked::new(body, flight, unread)))
}

/// What of the request is needed when only its response is there.
struct Asked {
    version: Version,
    origin: Option<HeaderValue>,
    content_length: Option<u64>,
    /// The parser takes all that ever comes for this request's body.
    endless: bool,
}

impl Asked {
    fn of(request: &ServiceRequest) -> Self {
        let text = |name| request.headers().get(name)?.to_str().ok();
        Self {
            version: request.version(),
            origin: request.headers().get(header::ORIGIN).cloned(),
            content_length: text(header::CONTENT_LENGTH).and_then(|length| length.parse().ok()),
            endless: is_endless(request),
        }
    }
}

/// Whether it asks for an answer of the engine. Nobody else's body is read.
fn asks(request: &ServiceRequest, route: Route) -> bool {
    route.generates() && request.method() == Method::POST
}

/// Who asks to speak another protocol has a body without end.
fn is_endless(request: &ServiceRequest) -> bool {
    let upgrade = request.headers().get(header::UPGRADE).and_then(|it| it.to_str().ok());
    let chunked = request.headers().contains_key(header::TRANSFER_ENCODING);
    let websocket = upgrade.is_some_and(|it| it.trim().eq_ignore_ascii_case("websocket"));
    websocket && !chunked || request.method() == Method::CONNECT
}

/// How a request goes on.
enum Entry {
    Preflight(HttpResponse),
    Handler(Option<Place>),
}

/// What every request has to pass, cheapest first.
fn enter(
    request: &ServiceRequest,
    shared: &Shared,
    route: Route,
    now: Micros,
) -> Result<Entry, ApiError> {
    if request.method() == Method::OPTIONS {
        return Ok(Entry::Preflight(cors::preflight(request.headers())));
    }
    let key = if route.is_open() { None } else { shared.keys.check(request.headers())? };
    if !asks(request, route) {
        return Ok(Entry::Handler(None));
    }
    if !shared.drain.is_serving() {
        return Err(ApiError::Draining);
    }
    if is_endless(request) {
        return Err(ApiError::Upgrade);
    }
    Ok(Entry::Handler(key.map(|key| shared.keys.enter(key, now)).transpose()?))
}

/// Sees to it that the connection is in order after this response: what nobody has read of the request
/// is read now, if it is little and there; otherwise the connection ends.
async fn settle(
    response: &mut ServiceResponse,
    unread: Option<Unread>,
    asked: &Asked,
) -> Option<Unread> {
    if asked.version < Version::HTTP_11 && response.response().body().size() == BodySize::Stream {
        // Older clients know no chunks: the end of the body is the end of the connection.
        response.response_mut().head_mut().no_chunking(true);
        close(response);
    }
    let mut unread = unread.filter(|unread| !matches!(unread.0, Payload::None))?;
    if asked.endless {
        close(response);
    }
    if !closes(response) && unread.drain(asked.content_length).await {
        return None;
    }
    close(response);
    Some(unread)
}

fn close(response: &mut ServiceResponse) {
    response.response_mut().head_mut().set_connection_type(ConnectionType::Close);
}

fn closes(response: &ServiceResponse) -> bool {
    response.response().head().connection_type() == ConnectionType::Close
}

/// The client's own id, fit for a log.
fn alias(headers: &HeaderMap) -> Option<String> {
    let text = headers.get(REQUEST_ID)?.to_str().ok()?;
    let plain = |char: &char| char.is_ascii_alphanumeric() || "-_.:".contains(*char);
    Some(text.chars().filter(plain).take(ALIAS_CHARS).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

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
