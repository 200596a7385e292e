//! The admission service's gRPC service.

use std::time::Duration;

use actix_web::http::StatusCode;
use proto::v1::{
    Admitted, AnswerLengths, Budget, Candidate, DecideRequest, PolicyRequest, PolicyResponse,
    RefusalReason, Refused, admission_client::AdmissionClient, decide_response,
};
use tokio::time::timeout;
use tonic::{Code, Status, transport::Channel};
use tracing::{error, warn};
use units::{RequestId, Span};

use crate::error::{ApiError, Refusal, SloDetail};

/// The admission service. Cheap to clone; belongs to the runtime that it was made on.
#[derive(Clone, Debug)]
pub(crate) struct Admission {
    client: AdmissionClient<Channel>,
}

/// What is asked of the admission service.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    pub(crate) id: RequestId,
    /// 0 for the first try.
    pub(crate) attempt: u32,
    pub(crate) engine_instance: String,
    pub(crate) prompt_tokens: u32,
    pub(crate) cached_tokens: u32,
    /// How long answers to such prompts were.
    pub(crate) answers: Option<AnswerLengths>,
    pub(crate) max_tokens: u32,
    /// What is left of the client's own budget.
    pub(crate) budget: Budget,
    pub(crate) patience: Option<Span>,
    pub(crate) best_effort: bool,
}

/// What came of asking.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Verdict {
    Admitted(Admitted),
    Refused(Refused),
    /// Nobody answered.
    Unreachable,
    /// Nobody answered in time. Admission may still be well: its own patience is not known here.
    Late,
    /// Who answered does not watch the engine, so it knows nothing.
    Detached,
}

impl Admission {
    /// The service at `address`, connected on first use.
    ///
    /// # Errors
    /// The address is not one.
    pub(crate) fn at(address: &str) -> anyhow::Result<Self> {
        Ok(Self { client: AdmissionClient::new(service::grpc::connect_lazily(address)?) })
    }

    /// Asks for a verdict and waits for it up to `limit`.
    ///
    /// # Errors
    /// The service is full, or does not understand the question.
    pub(crate) async fn decide(
        &self,
        question: Question,
        limit: Duration,
    ) -> Result<Verdict, ApiError> {
        let request = DecideRequest {
            request_id: question.id.to_string(),
            attempt: question.attempt,
            candidates: vec![Candidate {
                engine_instance: question.engine_instance,
                cached_tokens: question.cached_tokens,
                snapshot: None,
                answers: question.answers,
            }],
            prompt_tokens: question.prompt_tokens,
            max_tokens: question.max_tokens,
            budget: Some(question.budget),
            patience_us: question.patience.map(|patience| patience.0),
            accept_best_effort: question.best_effort,
            tenant: String::new(),
            priority: 0,
        };
        let mut client = self.client.clone();
        match timeout(limit, client.decide(request)).await {
            Ok(Ok(response)) => Ok(verdict(response.into_inner().verdict)),
            Ok(Err(status)) => trouble(&status),
            Err(_) => {
                warn!(?limit, "no verdict in time");
                Ok(Verdict::Late)
            }
        }
    }

    pub(crate) async fn policy(&self) -> Result<PolicyResponse, Status> {
        Ok(self.client.clone().policy(PolicyRequest {}).await?.into_inner())
    }
}

fn verdict(verdict: Option<decide_response::Verdict>) -> Verdict {
    match verdict {
        Some(decide_response::Verdict::Admitted(admitted)) => Verdict::Admitted(admitted),
        Some(decide_response::Verdict::Refused(refused))
            if refused.reason() == RefusalReason::NoEngine =>
        {
            Verdict::Detached
        }
        Some(decide_response::Verdict::Refused(refused)) => Verdict::Refused(refused),
        None => {
            error!("the admission service answered without a verdict");
            Verdict::Unreachable
        }
    }
}

fn trouble(status: &Status) -> Result<Verdict, ApiError> {
    if status.code() == Code::ResourceExhausted {
        let refused = Refused {
            reason: RefusalReason::Requests.into(),
            message: format!("the admission service is busy: {}", status.message()),
            ..Refused::default()
        };
        return Ok(Verdict::Refused(refused));
    }
    if status.code() == Code::InvalidArgument {
        error!(message = status.message(), "the admission service did not understand");
        return Err(ApiError::Internal);
    }
    warn!(code = ?status.code(), message = status.message(), "the admission service does not answer");
    Ok(Verdict::Unreachable)
}

/// Whether what is refused has run out of time, rather than that there never was enough.
pub(crate) fn ran_out(refused: &Refused) -> bool {
    refused.permanent && refused.reason() == RefusalReason::Slo && refused.bound_us.is_none()
}

/// A refusal as the client hears it. `overload` is the status of refusals that may pass.
pub(crate) fn refusal(refused: Refused, overload: StatusCode) -> Refusal {
    let reason = refused.reason();
    let millis = |micros: u64| micros.div_ceil(1_000);
    Refusal {
        // A request that no wait can help is wrong, not early: a retry would go on for ever.
        status: if refused.permanent || reason == RefusalReason::Never {
            StatusCode::BAD_REQUEST
        } else {
            overload
        },
        code: code(reason),
        retry_after: (refused.retry_after_us > 0).then_some(Span(refused.retry_after_us)),
        permanent: refused.permanent,
        slo: SloDetail {
            bound_ms: refused.bound_us.map(millis),
            budget_ms: refused.budget_us.map(millis),
            max_tokens_that_fit: refused.max_tokens_that_fit,
        },
        message: refused.message,
    }
}

fn code(reason: RefusalReason) -> &'static str {
    match reason {
        RefusalReason::Unspecified => "overloaded",
        RefusalReason::Requests => "overloaded_requests",
        RefusalReason::Tokens => "overloaded_tokens",
        RefusalReason::Kv => "overloaded_kv",
        RefusalReason::NoEngine => "engine_unavailable",
        RefusalReason::Slo => "slo_unattainable",
        RefusalReason::Draining => "draining",
        RefusalReason::Never => "exceeds_capacity",
    }
}
