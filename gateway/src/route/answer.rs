//! From an HTTP request to an answer, in one piece or as a stream, whichever the endpoint.
//!
//! What is wrong with a request is told first, whatever state the engine is in: a client that hears 503
//! comes back with the same mistake.

use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use actix_web::{
    HttpMessage as _, HttpRequest, HttpResponse, HttpResponseBuilder,
    http::header,
    web::{Data, Payload},
};
use proto::v1::Tier;
use units::RequestId;

use crate::{
    batch::Promise,
    body::{self, Unread},
    drain::Ending,
    edge::Arrival,
    entry,
    error::ApiError,
    generation::{Event, Generation},
    openai::{Endpoint, Head, Records, Request, Said, Terms, whole},
    order::Order,
    probe::Served,
    shared::Gateway,
    slo::Wishes,
    sse,
};

/// Reads a request that came in by `endpoint`, and answers it.
pub(super) async fn answer(
    endpoint: Endpoint,
    request: &HttpRequest,
    mut payload: Payload,
    gateway: &Data<Gateway>,
    arrival: Arrival,
) -> Result<HttpResponse, ApiError> {
    let outcome = match order(endpoint, request, &mut payload, gateway, arrival).await {
        Ok(order) => respond(gateway, order).await,
        Err(error) => Err(error),
    };
    if outcome.is_err() {
        request.extensions_mut().insert(Unread(payload.into_inner()));
    }
    outcome
}

/// The request, read and checked.
async fn order(
    endpoint: Endpoint,
    request: &HttpRequest,
    payload: &mut Payload,
    gateway: &Gateway,
    arrival: Arrival,
) -> Result<Order, ApiError> {
    let shared = &gateway.shared;
    if !shared.drain.is_serving() {
        return Err(ApiError::Draining);
    }
    let wishes = Wishes::read(request.headers())?;
    let body = body::read(request, payload, &shared.settings).await?;
    let known = shared.health.known();
    let terms = Terms {
        model: known.as_ref().map(|served| served.model.as_str()),
        vocabulary: known.as_ref().and_then(|served| served.vocabulary),
        choices_max: shared.settings.choices_max,
    };
    let asked = Request::parse(endpoint, &body, &terms)?;
    Ok(Order::new(arrival, endpoint, wishes, asked, body))
}

async fn respond(gateway: &Data<Gateway>, order: Order) -> Result<HttpResponse, ApiError> {
    let shared = &gateway.shared;
    let manner = Manner::of(&order);
    let mut ending = shared.drain.ending();
    let generation = entry::start(gateway, Arc::new(order), &mut ending).await?;
    if manner.stream {
        Ok(stream(manner, generation, ending, shared.settings.heartbeat()))
    } else {
        in_one_piece(manner, generation, ending).await
    }
}

/// How an answer is to be given.
struct Manner {
    endpoint: Endpoint,
    id: RequestId,
    stream: bool,
    include_usage: bool,
    logprobs: bool,
}

impl Manner {
    fn of(order: &Order) -> Self {
        let asked = &order.asked;
        Self {
            endpoint: order.endpoint,
            id: order.ids[0],
            stream: asked.stream,
            include_usage: asked.include_usage,
            logprobs: asked.top_logprobs.is_some(),
        }
    }

    fn head(&self, served: &Served) -> Head {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Head {
            id: format!("{}-{}", self.endpoint.id_prefix(), self.id),
            created: since_epoch.as_secs(),
            model: served.model.clone(),
            fingerprint: served.fingerprint.clone(),
        }
    }
}

fn stream(
    manner: Manner,
    mut generation: Generation,
    ending: Ending,
    heartbeat: Option<std::time::Duration>,
) -> HttpResponse {
    let mut response = HttpResponse::Ok();
    slo_headers(&mut response, &generation.tell());
    let head = manner.head(generation.served());
    let records = Records::new(manner.endpoint, head, generation.choices(), manner.logprobs);
    let echo: Vec<_> = (0..generation.choices()).map_while(|it| generation.echo(it)).collect();
    let opening = records.opening(&echo);
    let include_usage = manner.include_usage;
    let source = sse::Source { generation, records, opening, include_usage, heartbeat, ending };
    response
        .insert_header((header::CONTENT_TYPE, "text/event-stream"))
        .insert_header((header::CACHE_CONTROL, "no-cache, no-transform"))
        .insert_header(("x-accel-buffering", "no"))
        .streaming(sse::events(source))
}

/// The answer in one piece, from the same events that a stream is made of.
async fn in_one_piece(
    manner: Manner,
    mut generation: Generation,
    mut ending: Ending,
) -> Result<HttpResponse, ApiError> {
    let logprobs = manner.logprobs.then(Vec::new);
    let silent = |choice| {
        let text = generation.echo(choice).unwrap_or_default().to_owned();
        Said { text, logprobs: logprobs.clone(), ..Said::default() }
    };
    let mut said: Vec<_> = (0..generation.choices()).map(silent).collect();
    let usage = loop {
        let event = tokio::select! {
            biased;
            event = generation.next() => event?,
            () = ending.begun() => {
                generation.abandon();
                return Err(ApiError::Draining);
            }
        };
        match event {
            Event::Piece { choice, text, logprobs } => said[choice].add(&text, logprobs),
            Event::Finished { choice, reason, usage } => {
                said[choice].finish_reason = reason;
                if let Some(usage) = usage {
                    break usage;
                }
            }
        }
    };
    let mut response = HttpResponse::Ok();
    slo_headers(&mut response, &generation.tell());
    let head = manner.head(generation.served());
    let body = whole(manner.endpoint, &head, &said, usage);
    Ok(response.insert_header((header::CONTENT_TYPE, "application/json")).body(body))
}

fn slo_headers(response: &mut HttpResponseBuilder, promise: &Promise) {
    let tier = match promise.tier {
        Tier::Promised => "promised",
        Tier::BestEffort | Tier::Unspecified => "best-effort",
    };
    response.insert_header(("x-slo-tier", tier));
    if let Some(bound) = promise.bound {
        response.insert_header(("x-slo-bound-ms", bound.0.div_ceil(1_000)));
    }
    if let Some(confidence) = promise.confidence {
        // Sums of fractions end in digits that mean nothing.
        let confidence = (confidence * 1e6).round() / 1e6;
        response.insert_header(("x-slo-confidence", confidence.to_string()));
    }
}
