//! A request's way in: Prepare, once for each prompt; Decide for each choice; then Generate -> accepted for each.
//!
//! All choices get in or none: the first that fails takes the others back. Dropping the future takes
//! everything back in whatever phase it is, because it drops the gRPC calls under way.

mod decide;

use std::{cell::OnceCell, sync::Arc, time::Duration};

use actix_web::web::Data;
use futures_util::future::try_join_all;
use proto::v1::{
    Accepted, Admitted, AdmittedAs, GenerateEvent, GenerateRequest, PrepareResponse, Sampling,
    generate_event::Event as Wire, generate_request::Prompt, prepare_request::Input,
};
use tokio::time::timeout;
use tonic::{Code, Status, Streaming};
use tracing::{debug, error, info};

use crate::{
    batch::{Batch, Choice, Promise, unfinished},
    drain::Ending,
    error::ApiError,
    generation::{Generation, Life},
    metrics,
    order::Order,
    probe::Served,
    shared::{Gateway, Shared},
    slo::{Deadlines, E2E},
    upstream::{Engine, failure},
};

/// Brings a request to where an engine has accepted it, unless answers have to end before.
///
/// # Errors
/// Anything that keeps it from there. Nothing of it runs then.
pub(crate) async fn start(
    gateway: &Data<Gateway>,
    order: Arc<Order>,
    ending: &mut Ending,
) -> Result<Generation, ApiError> {
    let (engine, served) = gateway.serving_engine()?;
    let mut life = Life::begin(Arc::clone(&gateway.shared), order.head_at);
    let deadlines = Deadlines::of(&order.wishes, order.head_at);
    let gateway = gateway.clone();
    let granted = OnceCell::new();
    let entry = Entry { gateway, served, engine, order, attempt: 0, deadlines, granted };
    let outcome = tokio::select! {
        outcome = enter_somewhere(entry) => outcome,
        () = ending.begun() => Err(ApiError::Draining),
    };
    match outcome {
        Ok((entry, batch)) => Ok(Generation::new(batch, entry, life)),
        Err(error) => {
            life.ended();
            Err(error)
        }
    }
}

/// Tries another engine if the first is lost.
async fn enter_somewhere(entry: Entry) -> Result<(Entry, Batch), ApiError> {
    let entry = match entry.enter().await {
        Ok(batch) => return Ok((entry, batch)),
        Err(error) if error.lost_engine() => entry.elsewhere(&error, false).ok_or(error)?,
        Err(error) => return Err(error),
    };
    let batch = entry.enter().await?;
    Ok((entry, batch))
}

/// A request's way into one engine.
#[derive(Debug)]
pub(crate) struct Entry {
    gateway: Data<Gateway>,
    served: Arc<Served>,
    engine: usize,
    order: Arc<Order>,
    /// 0 for the first engine.
    attempt: u32,
    /// What is left of the time when it begins.
    deadlines: Deadlines,
    /// The same with admission's defaults filled in, once it has said so.
    granted: OnceCell<Deadlines>,
}

/// Why a choice may run.
struct Pass {
    admitted: Option<Admitted>,
    deadlines: Deadlines,
}

impl Entry {
    pub(crate) fn served(&self) -> &Served {
        &self.served
    }

    /// What a choice begins with where the prompt is echoed.
    pub(crate) fn echo(&self, choice: usize) -> Option<&str> {
        let asked = &self.order.asked;
        match &asked.prompts[choice / self.order.copies()] {
            Input::Text(text) if asked.echo => Some(text),
            Input::Text(_) | Input::Chat(_) | Input::TokenIds(_) => None,
        }
    }

    /// Returns when the engine will not go on, whatever its connection says.
    pub(crate) fn forsaken(&self) -> impl Future<Output = ApiError> + use<> {
        self.shared().health.forsaken(self.engine)
    }

    /// The way into another engine that serves the same model, because this one was lost. Once the client
    /// was `told` what answers, nothing but the same build and model file will do. Nobody gets a third try:
    /// where two engines fail, the client's own waiting is the better cure.
    pub(crate) fn elsewhere(&self, error: &ApiError, told: bool) -> Option<Self> {
        if self.attempt > 0 {
            return None;
        }
        let alike = |it: &Served| {
            it.model == self.served.model && (!told || it.fingerprint == self.served.fingerprint)
        };
        let mut up = self.shared().health.up();
        let (engine, served) = up.find(|(engine, it)| *engine != self.engine && alike(it))?;
        info!(id = %self.order.ids[0], lost = self.engine, engine, %error, "trying another engine");
        metrics::retried();
        Some(Self {
            gateway: self.gateway.clone(),
            served,
            engine,
            order: Arc::clone(&self.order),
            attempt: 1,
            deadlines: *self.granted.get().unwrap_or(&self.deadlines),
            granted: OnceCell::new(),
        })
    }

    /// # Errors
    /// Anything that keeps one of the choices from being accepted.
    pub(crate) async fn enter(&self) -> Result<Batch, ApiError> {
        let order = &*self.order;
        let prompts = 0..order.asked.prompts.len();
        let prepared = prompts.map(|prompt| self.prepare(&self.deadlines, prompt));
        let prepared = try_join_all(prepared).await?;
        let (passes, permit) = self.decide_all(&prepared).await?;
        let copies = order.copies();
        let choices = passes
            .iter()
            .enumerate()
            .map(|(choice, pass)| self.submit(pass, &prepared[choice / copies], choice));
        Ok(Batch::new(try_join_all(choices).await?, copies, permit))
    }

    async fn submit(
        &self,
        pass: &Pass,
        prepared: &PrepareResponse,
        choice: usize,
    ) -> Result<Choice, ApiError> {
        let prompt = choice / self.order.copies();
        let mut events = match self.generate(pass, prepared, choice).await? {
            Err(status) if status.code() == Code::NotFound => {
                debug!(id = %self.order.ids[choice], "the prepared request had expired");
                self.prepare(&pass.deadlines, prompt).await?;
                self.generate(pass, prepared, choice).await?
            }
            outcome => outcome,
        }
        .map_err(|status| self.failed(&status, prompt))?;
        let accepted = self.accepted(&pass.deadlines, prompt, &mut events).await?;
        let now = self.shared().clock.now();
        let promise = Promise::new(&accepted, pass.admitted.as_ref(), now);
        Ok(Choice { promise, events })
    }

    /// # Errors
    /// Besides the engine's own: the prompt leaves no room for an answer.
    async fn prepare(
        &self,
        deadlines: &Deadlines,
        prompt: usize,
    ) -> Result<PrepareResponse, ApiError> {
        let clock = self.shared().clock;
        let begun_at = clock.now();
        let copies = self.order.copies();
        let input = self.order.asked.prompts[prompt].clone();
        let call = self.upstream().prepare(self.order.ids[prompt * copies], input, copies > 1);
        let prepared =
            self.within(deadlines, call).await?.map_err(|status| self.failed(&status, prompt))?;
        metrics::prepared(clock.now().since(begun_at));
        if prepared.room_tokens == 0 {
            return Err(ApiError::ContextLength {
                place: self.order.endpoint.prompt(),
                context: self.served.context_tokens,
                prompt: prepared.prompt_tokens,
                completion: self.order.wanted_tokens(&self.shared().settings),
            });
        }
        Ok(prepared)
    }

    /// The cap on generated tokens: what is wanted, as far as there is room.
    fn max_tokens(&self, prepared: &PrepareResponse) -> u32 {
        let wanted = self.order.wanted_tokens(&self.shared().settings);
        u32::try_from(wanted).unwrap_or(u32::MAX).min(prepared.room_tokens)
    }

    async fn generate(
        &self,
        pass: &Pass,
        prepared: &PrepareResponse,
        choice: usize,
    ) -> Result<Result<Streaming<GenerateEvent>, Status>, ApiError> {
        let asked = &self.order.asked;
        let admitted = pass.admitted.as_ref();
        let request = GenerateRequest {
            request_id: self.order.ids[choice].to_string(),
            prompt: Some(self.prompt(prepared, choice)?),
            sampling: Some(self.sampling(choice)),
            max_tokens: self.max_tokens(prepared),
            stop: asked.stop.clone(),
            admitted_as: admitted
                .map(|admitted| AdmittedAs { tier: admitted.tier, epoch: admitted.epoch }),
            budget: Some(pass.deadlines.remaining(self.shared().clock.now())),
            evict: admitted.map(|admitted| admitted.evict.clone()).unwrap_or_default(),
            top_logprobs: asked.top_logprobs,
        };
        self.within(&pass.deadlines, self.upstream().generate(request)).await
    }

    /// The engine keeps what it prepared for the first choice; the others bring the tokens.
    fn prompt(&self, prepared: &PrepareResponse, choice: usize) -> Result<Prompt, ApiError> {
        if choice.is_multiple_of(self.order.copies()) {
            return Ok(Prompt::Prepared(true));
        }
        let ids = prepared.token_ids.clone().ok_or_else(|| {
            error!("the engine kept the token ids to itself");
            ApiError::Internal
        })?;
        Ok(Prompt::TokenIds(ids))
    }

    /// With one seed all choices of a prompt would be the same.
    fn sampling(&self, choice: usize) -> Sampling {
        let copy = (choice % self.order.copies()) as u64;
        let mut sampling = self.order.asked.sampling.clone();
        sampling.seed = sampling.seed.map(|seed| seed.wrapping_add(copy));
        sampling
    }

    async fn accepted(
        &self,
        deadlines: &Deadlines,
        prompt: usize,
        events: &mut Streaming<GenerateEvent>,
    ) -> Result<Accepted, ApiError> {
        let first = self.within(deadlines, events.message()).await?;
        match first.map_err(|status| self.failed(&status, prompt))?.and_then(|event| event.event) {
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
        let shared = self.shared();
        let limit = shared.settings.engine_timeout();
        let left = deadlines.e2e_left(shared.clock.now()).map(Duration::from);
        match timeout(left.unwrap_or(limit).min(limit), call).await {
            Ok(outcome) => Ok(outcome),
            Err(_) if left.is_some_and(|left| left < limit) => Err(self.out_of_time(E2E, None)),
            Err(_) => Err(ApiError::EngineTimeout { limit: limit.into() }),
        }
    }

    fn failed(&self, status: &Status, prompt: usize) -> ApiError {
        let error = failure(status);
        if error.lost_engine() {
            self.shared().health.engine_lost(self.engine);
        }
        error.renamed(ENGINE_NAMES, &self.order.place(prompt))
    }

    fn shared(&self) -> &Shared {
        &self.gateway.shared
    }

    fn upstream(&self) -> &Engine {
        &self.gateway.engines[self.engine]
    }
}

/// What the engine calls a prompt.
const ENGINE_NAMES: &[&str] = &["input", "prompt", "token_ids"];
