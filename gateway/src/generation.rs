//! The answer of a request that the engine has accepted.
//!
//! A [`Generation`] yields text until it finishes or fails. Dropping it cancels the request upstream,
//! because it drops the gRPC call.

use std::sync::Arc;

use proto::v1::{FinishReason, Finished, GenerateEvent, Tier, generate_event::Event as Wire};
use tonic::{Status, Streaming};
use tracing::error;
use units::{Micros, Span};

use crate::{
    error::ApiError,
    fallback::Permit,
    metrics::{self, Progress},
    openai::{Usage, finish_reason},
    shared::Shared,
    upstream::failure,
};

/// What a response says about its timing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Promise {
    pub(crate) tier: Tier,
    pub(crate) bound: Option<Span>,
    pub(crate) confidence: Option<f64>,
}

/// What an accepted request yields.
#[derive(Debug, PartialEq)]
pub(crate) enum Event {
    /// More of the answer; never empty.
    Text(String),
    /// The end, and no failure.
    Finished {
        /// `stop` or `length`.
        reason: &'static str,
        usage: Usage,
    },
}

/// A request that the engine has accepted.
#[derive(Debug)]
pub(crate) struct Generation {
    pub(crate) promise: Promise,
    events: Streaming<GenerateEvent>,
    life: Life,
    /// A place under the local cap, when nobody else admitted it.
    _permit: Option<Permit>,
}

/// Counts a request that is dropped before its end as cancelled by its client.
#[derive(Debug)]
pub(crate) struct Life {
    shared: Arc<Shared>,
    head_at: Micros,
    /// Where it stands; nothing once it has ended.
    progress: Option<Progress>,
}

impl Life {
    /// A request that is on its way in.
    pub(crate) fn begin(shared: Arc<Shared>, head_at: Micros) -> Self {
        Self { shared, head_at, progress: Some(Progress::Entering) }
    }

    fn age(&self) -> Span {
        self.shared.clock.now().since(self.head_at)
    }

    /// It has come to an end of its own.
    pub(crate) fn ended(&mut self) {
        self.progress = None;
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        if let Some(progress) = self.progress {
            metrics::cancelled(progress);
        }
    }
}

impl Generation {
    pub(crate) fn new(
        promise: Promise,
        events: Streaming<GenerateEvent>,
        mut life: Life,
        permit: Option<Permit>,
    ) -> Self {
        life.progress = Some(Progress::Prefill);
        Self { promise, events, life, _permit: permit }
    }

    /// What comes next. Nothing may be asked after the end or an error. May be dropped and called
    /// again without loss.
    ///
    /// # Errors
    /// The answer is not complete and will not be.
    pub(crate) async fn next(&mut self) -> Result<Event, ApiError> {
        let outcome = self.next_event().await;
        match &outcome {
            Ok(Event::Text(_)) => {}
            Ok(Event::Finished { .. }) => {
                metrics::finished(self.life.age());
                self.life.ended();
            }
            Err(_) => self.life.ended(),
        }
        outcome
    }

    /// Ends an answer for a reason of our own.
    pub(crate) fn abandon(&mut self) {
        self.life.ended();
    }

    async fn next_event(&mut self) -> Result<Event, ApiError> {
        loop {
            let event = self.events.message().await.map_err(|status| broken(&status))?;
            match event.and_then(|event| event.event) {
                Some(Wire::Delta(delta)) => {
                    if delta.tokens > 0 {
                        self.saw_token();
                    }
                    if !delta.text.is_empty() {
                        return Ok(Event::Text(delta.text));
                    }
                }
                Some(Wire::Finished(finished)) => return end(&finished),
                Some(Wire::Accepted(_)) => {
                    error!("the engine accepted twice");
                    return Err(ApiError::Internal);
                }
                None => return Err(ApiError::Cut),
            }
        }
    }

    fn saw_token(&mut self) {
        if self.life.progress == Some(Progress::Prefill) {
            metrics::first_token(self.life.age());
            self.life.progress = Some(Progress::Decode);
        }
    }
}

/// What a stream that breaks means: the work is lost, whatever the code says.
fn broken(status: &Status) -> ApiError {
    let error = failure(status);
    if matches!(error, ApiError::EngineDown { .. }) { ApiError::Cut } else { error }
}

fn end(finished: &Finished) -> Result<Event, ApiError> {
    match (finish_reason(finished.reason()), finished.usage) {
        (Some(reason), Some(usage)) => Ok(Event::Finished { reason, usage: usage.into() }),
        (Some(_), None) => {
            error!("the engine finished without a usage");
            Err(ApiError::Internal)
        }
        (None, _) => Err(unfinished(finished)),
    }
}

/// The failure behind an end that is not the answer's own.
pub(crate) fn unfinished(finished: &Finished) -> ApiError {
    match finished.reason() {
        FinishReason::Cancelled => ApiError::Cancelled,
        FinishReason::Deadline => ApiError::Deadline,
        FinishReason::Evicted => ApiError::Evicted,
        FinishReason::Shutdown => ApiError::EngineDown { reason: "it is shutting down".into() },
        FinishReason::Failed => ApiError::EngineFailed { message: finished.message.clone() },
        FinishReason::Unspecified | FinishReason::Stop | FinishReason::Length => {
            error!(reason = ?finished.reason(), "the engine ended a request in an odd way");
            ApiError::Internal
        }
    }
}
