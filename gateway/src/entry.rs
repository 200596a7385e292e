//! One chat request's way in: Prepare -> Decide -> Generate -> accepted.
//!
//! [`start`] returns once the engine has accepted. Dropping its future takes the request back in
//! whatever phase it is, because it drops the gRPC call under way.

use std::{sync::Arc, time::Duration};

use proto::v1::{
    Accepted, Admitted, AdmittedAs, ChatMessage, GenerateEvent, GenerateRequest, PrepareResponse,
    Sampling, Tier, generate_event::Event as Wire, generate_request::Prompt,
};
use tokio::time::timeout;
use tonic::{Code, Status, Streaming};
use tracing::{debug, error};
use units::{Micros, RequestId, Span};

use crate::{
    error::ApiError,
    fallback::Permit,
    generation::{Generation, Life, Promise, unfinished},
    metrics,
    probe::{Served, State},
    shared::Gateway,
    slo::{Deadlines, Wishes},
    upstream::{Engine, Question, Verdict, failure, refusal},
};

/// A checked request and its circumstances.
#[derive(Debug)]
pub(crate) struct Order {
    pub(crate) id: RequestId,
    /// When the head of the HTTP request was there.
    pub(crate) head_at: Micros,
    pub(crate) wishes: Wishes,
    pub(crate) messages: Vec<ChatMessage>,
    pub(crate) sampling: Sampling,
    pub(crate) max_tokens: Option<u64>,
    pub(crate) stop: Vec<String>,
}

/// Brings a request to where the engine has accepted it.
///
/// # Errors
/// Anything that keeps it from there. Nothing of it runs then.
pub(crate) async fn start(
    gateway: &Gateway,
    served: &Served,
    engine: usize,
    order: Order,
) -> Result<Generation, ApiError> {
    let mut life = Life::begin(Arc::clone(&gateway.shared), order.head_at);
    let entry = Entry { gateway, served, index: engine, engine: &gateway.engines[engine], order };
    match entry.enter().await {
        Ok((promise, events, permit)) => Ok(Generation::new(promise, events, life, permit)),
        Err(error) => {
            life.ended();
            Err(error)
        }
    }
}

/// A request on its way in.
struct Entry<'a> {
    gateway: &'a Gateway,
    served: &'a Served,
    index: usize,
    engine: &'a Engine,
    order: Order,
}

/// Why a request may run.
struct Pass {
    admitted: Option<Admitted>,
    deadlines: Deadlines,
    permit: Option<Permit>,
}

impl Entry<'_> {
    async fn enter(&self) -> Result<(Promise, Streaming<GenerateEvent>, Option<Permit>), ApiError> {
        let deadlines = Deadlines::of(&self.order.wishes, self.order.head_at);
        let prepared = self.prepare(&deadlines).await?;
        let max_tokens = self.max_tokens(&prepared);
        let pass = self.decide(&deadlines, &prepared, max_tokens).await?;

        let mut events = match self.generate(&pass, max_tokens).await? {
            Err(status) if status.code() == Code::NotFound => {
                debug!(id = %self.order.id, "the prepared request had expired");
                self.prepare(&pass.deadlines).await?;
                self.generate(&pass, max_tokens).await?
            }
            outcome => outcome,
        }
        .map_err(|status| self.failed(&status))?;

        let accepted = self.accepted(&pass.deadlines, &mut events).await?;
        Ok((promise(&accepted, pass.admitted.as_ref()), events, pass.permit))
    }

    /// # Errors
    /// Besides the engine's own: the prompt leaves no room for an answer.
    async fn prepare(&self, deadlines: &Deadlines) -> Result<PrepareResponse, ApiError> {
        let clock = self.gateway.shared.clock;
        let begun_at = clock.now();
        let call = self.engine.prepare(self.order.id, self.order.messages.clone());
        let prepared =
            self.within(deadlines, call).await?.map_err(|status| self.failed(&status))?;
        metrics::prepared(clock.now().since(begun_at));
        if prepared.room_tokens == 0 {
            return Err(ApiError::ContextLength {
                context: self.served.context_tokens,
                prompt: prepared.prompt_tokens,
                completion: self.wanted_tokens(),
            });
        }
        Ok(prepared)
    }

    fn wanted_tokens(&self) -> u64 {
        let default = self.gateway.shared.settings.max_tokens_default;
        self.order.max_tokens.unwrap_or(default.into())
    }

    /// The cap on generated tokens: what is wanted, as far as there is room.
    fn max_tokens(&self, prepared: &PrepareResponse) -> u32 {
        u32::try_from(self.wanted_tokens()).unwrap_or(u32::MAX).min(prepared.room_tokens)
    }

    async fn decide(
        &self,
        deadlines: &Deadlines,
        prepared: &PrepareResponse,
        max_tokens: u32,
    ) -> Result<Pass, ApiError> {
        let shared = &self.gateway.shared;
        let verdict = if shared.health.admission() == State::Down {
            Verdict::Unreachable
        } else {
            self.ask(deadlines, prepared, max_tokens).await?
        };
        match verdict {
            Verdict::Admitted(admitted) => {
                let budget = admitted.budget.unwrap_or_default();
                let deadlines = Deadlines::from_budget(&budget, shared.clock.now());
                Ok(Pass { admitted: Some(admitted), deadlines, permit: None })
            }
            Verdict::Refused(refused) => {
                let refusal = refusal(refused, shared.settings.overload_status.status());
                metrics::refused(refusal.code);
                Err(ApiError::Refused(Box::new(refusal)))
            }
            Verdict::Unreachable => {
                shared.health.admission_lost();
                self.fall_back(deadlines)
            }
            Verdict::Late | Verdict::Detached => self.fall_back(deadlines),
        }
    }

    /// The rule for the time in which admission can decide nothing.
    fn fall_back(&self, deadlines: &Deadlines) -> Result<Pass, ApiError> {
        let permit = Some(self.gateway.shared.local_cap.take()?);
        Ok(Pass { admitted: None, deadlines: *deadlines, permit })
    }

    async fn ask(
        &self,
        deadlines: &Deadlines,
        prepared: &PrepareResponse,
        max_tokens: u32,
    ) -> Result<Verdict, ApiError> {
        let shared = &self.gateway.shared;
        let wishes = &self.order.wishes;
        let asked_at = shared.clock.now();
        let question = Question {
            id: self.order.id,
            engine_instance: prepared.engine_instance.clone(),
            prompt_tokens: prepared.prompt_tokens,
            cached_tokens: prepared.cached_tokens,
            max_tokens,
            budget: deadlines.remaining(asked_at),
            patience: wishes.patience,
            best_effort: wishes.best_effort,
        };
        let patience = wishes.patience.unwrap_or_default();
        let limit = patience + Span::from_millis(shared.settings.decide_timeout_ms);
        let verdict = self.gateway.admission.decide(question, limit.into()).await?;
        metrics::decided(shared.clock.now().since(asked_at));
        Ok(verdict)
    }

    async fn generate(
        &self,
        pass: &Pass,
        max_tokens: u32,
    ) -> Result<Result<Streaming<GenerateEvent>, Status>, ApiError> {
        let admitted = pass.admitted.as_ref();
        let request = GenerateRequest {
            request_id: self.order.id.to_string(),
            prompt: Some(Prompt::Prepared(true)),
            sampling: Some(self.order.sampling.clone()),
            max_tokens,
            stop: self.order.stop.clone(),
            admitted_as: admitted
                .map(|admitted| AdmittedAs { tier: admitted.tier, epoch: admitted.epoch }),
            budget: Some(pass.deadlines.remaining(self.gateway.shared.clock.now())),
            evict: admitted.map(|admitted| admitted.evict.clone()).unwrap_or_default(),
            top_logprobs: None,
        };
        self.within(&pass.deadlines, self.engine.generate(request)).await
    }

    async fn accepted(
        &self,
        deadlines: &Deadlines,
        events: &mut Streaming<GenerateEvent>,
    ) -> Result<Accepted, ApiError> {
        let first = self.within(deadlines, events.message()).await?;
        match first.map_err(|status| self.failed(&status))?.and_then(|event| event.event) {
            Some(Wire::Accepted(accepted)) => Ok(accepted),
            Some(Wire::Finished(finished)) => Err(unfinished(&finished)),
            Some(Wire::Delta(_)) => {
                error!("the engine sent text before it accepted");
                Err(ApiError::Internal)
            }
            None => Err(ApiError::Cut),
        }
    }

    /// Waits for the engine, but not longer than the request's own time.
    async fn within<T>(
        &self,
        deadlines: &Deadlines,
        call: impl Future<Output = T>,
    ) -> Result<T, ApiError> {
        let limit = self.gateway.shared.settings.engine_timeout();
        let left = deadlines.e2e_left(self.gateway.shared.clock.now()).map(Duration::from);
        match timeout(left.unwrap_or(limit).min(limit), call).await {
            Ok(outcome) => Ok(outcome),
            Err(_) if left.is_some_and(|left| left < limit) => Err(ApiError::Deadline),
            Err(_) => Err(ApiError::EngineTimeout { limit: limit.into() }),
        }
    }

    fn failed(&self, status: &Status) -> ApiError {
        let error = failure(status);
        if matches!(error, ApiError::EngineDown { .. } | ApiError::Cut) {
            self.gateway.shared.health.engine_lost(self.index);
        }
        error
    }
}

/// What the engine made of the verdict: a downgrade is never hidden.
fn promise(accepted: &Accepted, admitted: Option<&Admitted>) -> Promise {
    let admitted = admitted.filter(|_| accepted.tier() == Tier::Promised);
    Promise {
        tier: accepted.tier(),
        bound: admitted.and_then(|admitted| admitted.bound_us).map(Span),
        confidence: admitted.and_then(|admitted| admitted.confidence),
    }
}
