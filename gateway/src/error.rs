//! Everything that can go wrong, and how a client hears of it.
//!
//! Before the first byte of an answer an error is an HTTP status with a JSON envelope; after it, the
//! same envelope is an event of the stream.

use actix_web::{
    HttpResponse, HttpResponseBuilder, ResponseError,
    http::{StatusCode, header},
};
use serde::Serialize;
use units::Span;

use crate::auth::Excess;

/// Clients of the OpenAI SDKs ignore longer waits, and take zero as "at once".
const RETRY_AFTER_MAX: Span = Span::from_secs(59);
/// What a refusal of our own advises, before jitter.
const RETRY_SOON: Span = Span::from_secs(1);

const INVALID: &str = "invalid_request_error";
const OVERLOADED: &str = "overloaded_error";
const SERVER: &str = "server_error";
const TIMEOUT: &str = "timeout_error";
const AUTHENTICATION: &str = "authentication_error";
const RATE_LIMIT: &str = "rate_limit_error";

const UNAVAILABLE: StatusCode = StatusCode::SERVICE_UNAVAILABLE;
const FAULT: StatusCode = StatusCode::INTERNAL_SERVER_ERROR;

/// Why a request is not answered, or not to its end.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum ApiError {
    /// The request is wrong. `param` names the field or header.
    #[error("{message}")]
    Invalid { message: String, param: Option<String>, code: Option<&'static str> },
    #[error("the model {model:?} does not exist")]
    ModelNotFound { model: String },
    // Client libraries know this case by these words.
    #[error(
        "This model's maximum context length is {context} tokens. However, you requested {} tokens \
         ({prompt} in the {place}, {completion} in the completion). Please reduce the length of the \
         {place} or completion.",
        u64::from(*prompt).saturating_add(*completion)
    )]
    ContextLength { place: &'static str, context: u32, prompt: u32, completion: u64 },
    #[error("there is nothing at this path")]
    NoRoute,
    #[error("this path answers only to {allow}")]
    Method { allow: &'static str },
    #[error("this server speaks no other protocol than HTTP")]
    Upgrade,
    #[error("this is not a request of HTTP/1.0 or HTTP/1.1")]
    Malformed,
    #[error("the head of the request did not arrive in time")]
    HeadTimeout,
    #[error("the head of the request is too large, or has more than 96 headers")]
    HeadTooLarge,
    #[error("this server has as many connections as it takes")]
    Connections,
    /// It shows no API key, or one that is not known.
    #[error("{}", if *shown { "the API key is not valid" } else { "there is no API key" })]
    Key { shown: bool },
    /// Its API key asks for too much.
    #[error("{}", key_limit(.0))]
    KeyLimit(Excess),
    #[error("the body must be JSON, with content-type application/json")]
    ContentType,
    #[error("the body is longer than {limit_bytes} bytes")]
    BodyTooLarge { limit_bytes: usize },
    #[error("the body did not arrive within {limit}")]
    BodyTimeout { limit: Span },
    #[error("the body could not be read: {reason}")]
    BodyBroken { reason: String },
    #[error("this server holds as many request bodies as it takes")]
    BodiesFull,
    /// Admission's verdict.
    #[error("{}", .0.message)]
    Refused(Box<Refusal>),
    /// The engine's queues are full.
    #[error("the engine is busy: {message}")]
    EngineBusy { message: String, retry_after: Option<Span> },
    #[error("the engine is not available: {reason}")]
    EngineDown { reason: String },
    #[error("the admission service is not available")]
    NoAdmission,
    /// Only admission can let so many in.
    #[error(
        "the admission service is not available, and without it at most {most} choices run at once, \
         not {choices}"
    )]
    BeyondFallback { choices: usize, most: usize },
    #[error("this server is shutting down")]
    Draining,
    #[error("the time budget ran out")]
    Deadline,
    /// The client's own budget; `header` names it.
    #[error("the time budget ran out before the engine took the request: {header} was {budget}")]
    OutOfTime { header: &'static str, budget: Span },
    #[error("the engine did not answer within {limit}")]
    EngineTimeout { limit: Span },
    #[error("the answer made way for promised work and ran out of time")]
    Evicted,
    #[error("the answer was cancelled")]
    Cancelled,
    #[error("the engine failed: {message}")]
    EngineFailed { message: String },
    #[error("the connection to the engine was lost")]
    Cut,
    /// A fault of ours; the log says which.
    #[error("internal error")]
    Internal,
}

/// A refusal by the admission service.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) message: String,
    pub(crate) code: &'static str,
    /// Nothing when it does not say.
    pub(crate) retry_after: Option<Span>,
    /// No wait can help.
    pub(crate) permanent: bool,
    pub(crate) slo: SloDetail,
}

/// The numbers behind a refusal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct SloDetail {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) bound_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) budget_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_tokens_that_fit: Option<u32>,
}

/// `{"error": {...}}`
#[derive(Debug, Serialize)]
pub(crate) struct Envelope<'a> {
    error: Body<'a>,
}

#[derive(Debug, Serialize)]
struct Body<'a> {
    message: String,
    #[serde(rename = "type")]
    kind: &'static str,
    param: Option<&'a str>,
    code: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    slo: Option<SloDetail>,
}

/// How an error looks on the wire.
struct Shape<'a> {
    status: StatusCode,
    kind: &'static str,
    code: Option<&'static str>,
    param: Option<&'a str>,
}

impl<'a> Shape<'a> {
    const fn new(status: StatusCode, kind: &'static str, code: &'static str) -> Self {
        Self { status, kind, code: Some(code), param: None }
    }

    const fn invalid(status: StatusCode, code: &'static str) -> Self {
        Self::new(status, INVALID, code)
    }

    const fn about(mut self, param: &'a str) -> Self {
        self.param = Some(param);
        self
    }
}

impl ApiError {
    /// The request's field or header `param` is wrong.
    pub(crate) fn invalid(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Invalid { message: message.into(), param: Some(param.into()), code: None }
    }

    fn shape(&self) -> Shape<'_> {
        use StatusCode as S;
        match self {
            Self::Invalid { code, param, .. } => {
                let param = param.as_deref();
                Shape { status: S::BAD_REQUEST, kind: INVALID, code: *code, param }
            }
            Self::ModelNotFound { .. } => {
                Shape::invalid(S::NOT_FOUND, "model_not_found").about("model")
            }
            Self::ContextLength { place, .. } => {
                Shape::invalid(S::BAD_REQUEST, "context_length_exceeded").about(place)
            }
            Self::NoRoute => Shape::invalid(S::NOT_FOUND, "not_found"),
            Self::Method { .. } => Shape::invalid(S::METHOD_NOT_ALLOWED, "method_not_allowed"),
            Self::Upgrade => Shape::invalid(S::BAD_REQUEST, "upgrade_not_supported"),
            Self::Malformed => Shape::invalid(S::BAD_REQUEST, "malformed_request"),
            Self::BodyBroken { .. } => Shape::invalid(S::BAD_REQUEST, "malformed_body"),
            Self::HeadTimeout => Shape::new(S::REQUEST_TIMEOUT, TIMEOUT, "request_timeout"),
            Self::HeadTooLarge => {
                Shape::invalid(S::REQUEST_HEADER_FIELDS_TOO_LARGE, "request_head_too_large")
            }
            Self::Connections => Shape::new(UNAVAILABLE, OVERLOADED, "too_many_connections"),
            Self::BodiesFull => Shape::new(UNAVAILABLE, OVERLOADED, "bodies_full"),
            Self::Key { .. } => Shape::new(S::UNAUTHORIZED, AUTHENTICATION, "invalid_api_key"),
            Self::KeyLimit(_) => {
                Shape::new(S::TOO_MANY_REQUESTS, RATE_LIMIT, "rate_limit_exceeded")
            }
            Self::ContentType => {
                Shape::invalid(S::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type")
            }
            Self::BodyTooLarge { .. } => Shape::invalid(S::PAYLOAD_TOO_LARGE, "request_too_large"),
            Self::BodyTimeout { .. } => Shape::new(S::REQUEST_TIMEOUT, TIMEOUT, "request_timeout"),
            Self::Refused(refusal) if refusal.status == S::BAD_REQUEST => {
                Shape::invalid(refusal.status, refusal.code)
            }
            Self::Refused(refusal) => Shape::new(refusal.status, OVERLOADED, refusal.code),
            Self::EngineBusy { .. } => Shape::new(UNAVAILABLE, OVERLOADED, "engine_busy"),
            Self::EngineDown { .. } => Shape::new(UNAVAILABLE, SERVER, "engine_unavailable"),
            Self::NoAdmission | Self::BeyondFallback { .. } => {
                Shape::new(UNAVAILABLE, OVERLOADED, "admission_unavailable")
            }
            Self::Draining => Shape::new(UNAVAILABLE, SERVER, "draining"),
            Self::Evicted => Shape::new(UNAVAILABLE, OVERLOADED, "evicted"),
            Self::Cancelled => Shape::new(UNAVAILABLE, SERVER, "cancelled"),
            Self::Cut => Shape::new(UNAVAILABLE, SERVER, "engine_lost"),
            Self::Deadline => Shape::new(S::GATEWAY_TIMEOUT, TIMEOUT, "deadline_exceeded"),
            Self::OutOfTime { header, .. } => {
                Shape::new(S::GATEWAY_TIMEOUT, TIMEOUT, "deadline_exceeded").about(header)
            }
            Self::EngineTimeout { .. } => Shape::new(S::GATEWAY_TIMEOUT, TIMEOUT, "engine_timeout"),
            Self::EngineFailed { .. } => Shape::new(FAULT, SERVER, "engine_failed"),
            Self::Internal => Shape::new(FAULT, SERVER, "internal_error"),
        }
    }

    /// The code, for logs and metrics: one of a fixed set.
    pub(crate) fn code(&self) -> &'static str {
        self.shape().code.unwrap_or("invalid")
    }

    /// The JSON that tells it.
    pub(crate) fn envelope(&self) -> Envelope<'_> {
        let Shape { kind, code, param, .. } = self.shape();
        let slo = self.slo();
        let slo = (slo != SloDetail::default()).then_some(slo);
        Envelope { error: Body { message: self.to_string(), kind, param, code, slo } }
    }

    /// The same, if it is about one of `names`, but about `param`: what another process calls differently.
    pub(crate) fn renamed(self, names: &[&str], param: &str) -> Self {
        let Self::Invalid { message, param: Some(named), code } = &self else { return self };
        if !names.contains(&named.as_str()) {
            return self;
        }
        let said = message.strip_prefix(named).and_then(|rest| rest.strip_prefix(':'));
        let message = format!("{param}: {}", said.unwrap_or(message).trim_start());
        Self::Invalid { message, param: Some(param.into()), code: *code }
    }

    fn slo(&self) -> SloDetail {
        if let Self::Refused(refusal) = self {
            refusal.slo
        } else if let Self::OutOfTime { budget, .. } = self {
            SloDetail { budget_ms: Some(budget.0.div_ceil(1_000)), ..SloDetail::default() }
        } else {
            SloDetail::default()
        }
    }

    /// The engine went away, and with it the work: another one may do it.
    pub(crate) fn lost_engine(&self) -> bool {
        matches!(self, Self::EngineDown { .. } | Self::Cut)
    }

    /// When to come back, for answers that invite to: 1 s to 59 s.
    fn retry_after(&self) -> Option<Span> {
        let status = self.shape().status;
        let wait = if let Self::Refused(refusal) = self {
            let soon = || refusal.retry_after.unwrap_or_else(retry_soon);
            (status != StatusCode::BAD_REQUEST).then(soon)
        } else if let Self::EngineBusy { retry_after: Some(wait), .. } = self {
            Some(*wait)
        } else if let Self::KeyLimit(Excess::Rate { wait, .. }) = self {
            Some(*wait)
        } else {
            // Clients come back after a time-out as well.
            let invites = matches!(
                status,
                UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT | StatusCode::TOO_MANY_REQUESTS
            );
            invites.then(retry_soon)
        };
        wait.map(|wait| wait.clamp(RETRY_SOON, RETRY_AFTER_MAX))
    }

    /// Whether the next tries will fare no better.
    fn is_permanent(&self) -> bool {
        matches!(self, Self::BeyondFallback { .. })
            || matches!(self, Self::Refused(refusal) if refusal.permanent)
    }

    /// Whether the connection is not worth keeping: what is left of a body would have to be read, or
    /// this process is about to end.
    fn closes(&self) -> bool {
        matches!(
            self,
            Self::BodyTooLarge { .. }
                | Self::BodyTimeout { .. }
                | Self::BodyBroken { .. }
                | Self::BodiesFull
                | Self::Upgrade
                | Self::Draining
        )
    }

    fn headers(&self, response: &mut HttpResponseBuilder) {
        if let Some(wait) = self.retry_after() {
            let millis = wait.0.div_ceil(1_000);
            response.insert_header((header::RETRY_AFTER, millis.div_ceil(1_000)));
            response.insert_header(("retry-after-ms", millis));
        }
        if self.is_permanent() {
            response.insert_header(("x-should-retry", "false"));
        }
        if let Self::Method { allow } = self {
            response.insert_header((header::ALLOW, *allow));
        }
        if matches!(self, Self::Key { .. }) {
            response.insert_header((header::WWW_AUTHENTICATE, "Bearer"));
        }
        if self.closes() {
            response.force_close();
        }
    }
}

/// Spread, so that those who were sent away together do not come back together.
fn retry_soon() -> Span {
    RETRY_SOON.mul_f64(1.0 + 2.0 * rand::random::<f64>())
}

fn key_limit(excess: &Excess) -> String {
    match excess {
        Excess::Rate { limit, .. } => format!("the API key may make {limit} requests a minute"),
        Excess::Concurrent { limit } => format!("the API key may have {limit} requests running"),
    }
}

impl ResponseError for ApiError {
    fn status_code(&self) -> StatusCode {
        self.shape().status
    }

    fn error_response(&self) -> HttpResponse {
        let mut response = HttpResponse::build(self.status_code());
        self.headers(&mut response);
        response.json(self.envelope())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(retry_after: impl Into<Option<Span>>) -> Refusal {
        Refusal {
            status: StatusCode::SERVICE_UNAVAILABLE,
            message: "8 of 8 requests".into(),
            code: "overloaded_requests",
            retry_after: retry_after.into(),
            permanent: false,
            slo: SloDetail::default(),
        }
    }

    fn header(error: &ApiError, name: &str) -> Option<String> {
        let response = error.error_response();
        Some(response.headers().get(name)?.to_str().expect("text").to_owned())
    }

    #[test]
    fn the_envelope_has_every_member_and_no_other() {
        let json = |error: &ApiError| serde_json::to_string(&error.envelope()).expect("JSON");
        assert_eq!(
            json(&ApiError::invalid("top_p", "top_p must be a number")),
            r#"{"error":{"message":"top_p must be a number","type":"invalid_request_error","param":"top_p","code":null}}"#
        );
        let mut refusal = refusal(Span::ZERO);
        refusal.slo.max_tokens_that_fit = Some(7);
        assert_eq!(
            json(&ApiError::Refused(Box::new(refusal))),
            r#"{"error":{"message":"8 of 8 requests","type":"overloaded_error","param":null,"code":"overloaded_requests","slo":{"max_tokens_that_fit":7}}}"#
        );
    }

    #[test]
    fn a_wait_is_between_1_and_59_seconds() {
        for (wait, secs, millis) in [
            (Span::ZERO, "1", "1000"),
            (Span(1_500_001), "2", "1501"),
            (Span::from_secs(3_600), "59", "59000"),
        ] {
            let error = ApiError::Refused(Box::new(refusal(wait)));
            assert_eq!(header(&error, "retry-after").as_deref(), Some(secs));
            assert_eq!(header(&error, "retry-after-ms").as_deref(), Some(millis));
        }
        let own = header(&ApiError::NoAdmission, "retry-after").expect("a wait");
        assert!(["1", "2", "3"].contains(&own.as_str()), "{own}");
        assert_eq!(header(&ApiError::Internal, "retry-after"), None);
    }

    #[test]
    fn who_is_sent_away_without_a_time_comes_back_at_one_of_its_own() {
        let error = ApiError::Refused(Box::new(refusal(None)));
        let waits = (0..20).map(|_| header(&error, "retry-after-ms").expect("a wait"));
        let waits: std::collections::BTreeSet<u64> =
            waits.map(|wait| wait.parse().expect("a number")).collect();
        assert!(waits.len() > 1 && waits.iter().all(|wait| (1_000..=3_000).contains(wait)));
    }

    #[test]
    fn a_budget_that_ran_out_is_named_and_invites_to_retry_later() {
        let error = ApiError::OutOfTime { header: "x-slo-ttft-ms", budget: Span::from_millis(1) };
        let json = serde_json::to_value(error.envelope()).expect("JSON");
        assert_eq!(json["error"]["param"], "x-slo-ttft-ms");
        assert_eq!(json["error"]["slo"], serde_json::json!({"budget_ms": 1}));
        assert!(header(&error, "retry-after").is_some());
        assert_eq!(header(&error, "x-should-retry"), None);
    }

    #[test]
    fn what_can_never_fit_does_not_invite_to_retry() {
        let never =
            Refusal { status: StatusCode::BAD_REQUEST, permanent: true, ..refusal(Span::ZERO) };
        let never = ApiError::Refused(Box::new(never));
        assert_eq!(header(&never, "retry-after"), None);
        assert_eq!(header(&never, "x-should-retry").as_deref(), Some("false"));
    }

    #[test]
    fn the_context_error_has_the_words_that_clients_know() {
        let error = ApiError::ContextLength {
            place: "messages",
            context: 100,
            prompt: 120,
            completion: 16,
        };
        let message = error.to_string();
        assert!(message.starts_with("This model's maximum context length is 100 tokens. However, you requested 136 tokens"), "{message}");
    }
}
