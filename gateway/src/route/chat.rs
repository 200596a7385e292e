//! `POST /v1/chat/completions`.

use std::time::{SystemTime, UNIX_EPOCH};

use actix_web::{
    HttpMessage as _, HttpRequest, HttpResponse, HttpResponseBuilder,
    http::header,
    web::{Data, Payload, ReqData},
};
use proto::v1::Tier;
use units::RequestId;

use crate::{
    body::{self, Unread},
    drain::Ending,
    edge::Arrival,
    entry::{self, Order},
    error::ApiError,
    generation::{Event, Generation, Promise},
    openai::{ChatCompletion, ChatRequest, Head},
    probe::Served,
    shared::Gateway,
    slo::Wishes,
    sse,
};

/// Answers a conversation, in one piece or as a stream.
pub(crate) async fn complete(
    request: HttpRequest,
    mut payload: Payload,
    gateway: Data<Gateway>,
    arrival: ReqData<Arrival>,
) -> Result<HttpResponse, ApiError> {
    let outcome = answer(&request, &mut payload, &gateway, *arrival).await;
    if outcome.is_err() {
        request.extensions_mut().insert(Unread(payload.into_inner()));
    }
    outcome
}

async fn answer(
    request: &HttpRequest,
    payload: &mut Payload,
    gateway: &Gateway,
    arrival: Arrival,
) -> Result<HttpResponse, ApiError> {
    let shared = &gateway.shared;
    if !shared.drain.is_serving() {
        return Err(ApiError::Draining);
    }
    let wishes = Wishes::read(request.headers())?;
    let body = body::read(request, payload, &shared.settings).await?;
    let (engine, served) = gateway.serving_engine()?;
    let asked = ChatRequest::parse(&body, &served.model)?;
    drop(body);

    let (stream, include_usage) = (asked.stream, asked.include_usage);
    let order = order(arrival, wishes, asked);
    let mut ending = shared.drain.ending();
    let generation = tokio::select! {
        outcome = entry::start(gateway, &served, engine, order) => outcome?,
        () = ending.begun() => return Err(ApiError::Draining),
    };
    let mut response = HttpResponse::Ok();
    slo_headers(&mut response, &generation.promise);
    let head = head(arrival.id, &served);
    if !stream {
        return whole(response, generation, head, ending).await;
    }
    let heartbeat = shared.settings.heartbeat();
    let source = sse::Source { generation, head, include_usage, heartbeat, ending };
    Ok(response
        .insert_header((header::CONTENT_TYPE, "text/event-stream"))
        .insert_header((header::CACHE_CONTROL, "no-cache, no-transform"))
        .insert_header(("x-accel-buffering", "no"))
        .streaming(sse::events(source)))
}

fn order(arrival: Arrival, wishes: Wishes, asked: ChatRequest) -> Order {
    Order {
        id: arrival.id,
        head_at: arrival.at,
        wishes,
        messages: asked.messages,
        sampling: asked.sampling,
        max_tokens: asked.max_tokens,
        stop: asked.stop,
    }
}

/// The answer in one piece, from the same events that a stream is made of.
async fn whole(
    mut response: HttpResponseBuilder,
    mut generation: Generation,
    head: Head,
    mut ending: Ending,
) -> Result<HttpResponse, ApiError> {
    let mut content = String::new();
    loop {
        let event = tokio::select! {
            biased;
            event = generation.next() => event?,
            () = ending.begun() => {
                generation.abandon();
                return Err(ApiError::Draining);
            }
        };
        match event {
            Event::Text(text) => content += &text,
            Event::Finished { reason, usage } => {
                return Ok(response.json(ChatCompletion::new(&head, &content, reason, usage)));
            }
        }
    }
}

fn head(id: RequestId, served: &Served) -> Head {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Head {
        id: format!("chatcmpl-{id}"),
        created: since_epoch.as_secs(),
        model: served.model.clone(),
        fingerprint: served.fingerprint.clone(),
    }
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
        response.insert_header(("x-slo-confidence", confidence.to_string()));
    }
}
