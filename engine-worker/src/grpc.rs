//! The `Engine` service.

use std::{
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc::Sender,
    },
    task::{Context, Poll},
};

use futures_util::Stream;
use proto::v1::{self, engine_server::Engine};
use sched::{Refusal, Submission};
use text::{ChatTemplate, Message as ChatMessage, Segment, Tokenizer};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Request, Response, Status, Streaming};
use units::{BlockCount, RequestId, Span, Token, TokenCount};

use crate::{
    backend::ModelFacts,
    calibration::CostSource,
    outlet::{Answer, Outlet},
    prepare::Pantry,
    scheduling::discipline,
    step_loop::Message,
    submit::{Desk, invalid, request_id, stops, token_ids},
    watch::{self, WatchDesk},
    wire,
};

/// What the service needs.
pub(crate) struct EngineService {
    pub(crate) commands: Sender<Message>,
    pub(crate) watch: Arc<WatchDesk>,
    pub(crate) tokenizer: Arc<dyn Tokenizer>,
    pub(crate) template: Arc<ChatTemplate>,
    pub(crate) pantry: Arc<Mutex<Pantry>>,
    pub(crate) hold: Span,
    pub(crate) context_tokens: u32,
    /// Bytes of the vocabulary's longest token.
    pub(crate) longest_token: usize,
    /// Requests being prepared or waiting for it.
    pub(crate) preparing: Arc<Semaphore>,
    /// Those being prepared: few, since they take processors from the engine.
    pub(crate) tokenising: Arc<Semaphore>,
    /// Open `Watch` calls.
    pub(crate) watchers: Arc<Semaphore>,
    /// Numbers the answers.
    pub(crate) serials: AtomicU64,
    /// Open `Generate` calls: what may be queued and run, and a margin for those on their way out.
    pub(crate) generating: Arc<Semaphore>,
    /// Touches that the loop has not read yet.
    pub(crate) touching: Arc<Semaphore>,
    pub(crate) facts: Facts,
}

/// What `Info` says and does not change.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) backend: &'static str,
    pub(crate) model: ModelFacts,
    pub(crate) created: u64,
    pub(crate) sha256: Arc<std::sync::OnceLock<String>>,
    pub(crate) cost_source: CostSource,
}

/// A refusal for lack of room, with the time to come back: one to two seconds, drawn, so that those who
/// are refused together do not come back together. These bounds protect memory; admission, which knows the
/// work in the system, computes better times.
fn exhausted(message: impl Into<String>) -> Status {
    let mut status = Status::resource_exhausted(message);
    let retry = 1_000_000 + random() % 1_000_000;
    status.metadata_mut().insert("retry-after-us", retry.into());
    status
}

/// The random half of a fresh UUID.
fn random() -> u64 {
    uuid::Uuid::now_v7().as_u64_pair().1
}

fn refused(refusal: &Refusal) -> Status {
    match refusal {
        Refusal::Duplicate => Status::new(Code::AlreadyExists, refusal.to_string()),
        Refusal::QueueFull { .. } | Refusal::UnleasedFull { .. } => exhausted(refusal.to_string()),
        Refusal::TooLarge { .. } => invalid("prompt", refusal),
        Refusal::Draining => Status::unavailable(refusal.to_string()),
    }
}

/// Tells the loop that what is kept of a prompt will soon be wanted; unless many such are on their way,
/// since the loop reads none while a step runs.
fn touch(commands: &Sender<Message>, touching: &Arc<Semaphore>, prompt: Arc<[Token]>) {
    if let Ok(place) = touching.clone().try_acquire_owned() {
        // A loop that is gone keeps nothing.
        let _ = commands.send(Message::Touch(prompt, place));
    }
}

/// Less text than this, in no more messages than the next, is tokenised faster than it is handed to
/// another thread.
const INLINE_BYTES: usize = 2 << 10;
const INLINE_MESSAGES: usize = 8;

/// Messages and bytes of an input. Every message costs at least a token, also an empty one.
fn size(input: &v1::prepare_request::Input) -> (usize, usize) {
    use v1::prepare_request::Input;
    match input {
        Input::TokenIds(_) => (0, 0),
        Input::Text(text) => (1, text.len()),
        Input::Chat(chat) => {
            let bytes = chat.messages.iter().map(|it| it.role.len() + it.content.len());
            (chat.messages.len(), bytes.sum())
        }
    }
}

/// Writes what is to be tokenised, with the template's text apart from the users'.
type Write = Box<dyn FnOnce(&ChatTemplate) -> Result<Vec<Segment>, Status> + Send>;

fn chat(chat: v1::ChatInput, template: &ChatTemplate) -> Result<Vec<Segment>, Status> {
    let message = |it: v1::ChatMessage| ChatMessage { role: it.role, content: it.content };
    let messages: Vec<ChatMessage> = chat.messages.into_iter().map(message).collect();
    template.render(&messages).map_err(|error| invalid("messages", error))
}

impl EngineService {
    fn send(&self, message: Message) -> Result<(), Status> {
        self.commands.send(message).map_err(|_| Status::unavailable("the engine thread is gone"))
    }

    fn pantry(&self) -> MutexGuard<'_, Pantry> {
        self.pantry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The least tokens that an input can have, if that is already too many: tokenising it would take
    /// seconds and gigabytes for megabytes.
    fn hopeless(&self, input: &v1::prepare_request::Input) -> Option<u32> {
        let (pieces, bytes) = size(input);
        let least = pieces.max(bytes / self.longest_token);
        let least = u32::try_from(least).unwrap_or(u32::MAX);
        (least >= self.context_tokens).then_some(least)
    }

    /// What is said of a prompt that does not fit, or that is yet to be looked up.
    fn prepared(&self, prompt_tokens: u32) -> v1::PrepareResponse {
        v1::PrepareResponse {
            prompt_tokens,
            room_tokens: self.context_tokens.saturating_sub(prompt_tokens),
            kv_blocks: TokenCount(prompt_tokens).blocks().0,
            held_us: self.hold.0,
            engine_instance: self.watch.instance.clone(),
            ..v1::PrepareResponse::default()
        }
    }

    /// Looks a prompt up in the index of kept prefixes. All but its last token can be found.
    fn probe(&self, prompt: &[Token], prepared: v1::PrepareResponse) -> v1::PrepareResponse {
        let hashes: Vec<_> = kv::block_hashes(prompt).collect();
        let probe = self.watch.hub.prefixes.probe(&hashes);
        let cached = BlockCount(probe.blocks).tokens().0.min(prepared.prompt_tokens - 1);
        // A block that is kept whole and found but for its last token is copied, not shared.
        let whole = cached / units::BLOCK_TOKENS;
        let shared = if self.watch.told.shares_blocks { whole } else { 0 };
        v1::PrepareResponse {
            cached_tokens: cached,
            kv_blocks: prepared.kv_blocks - shared,
            blocks: hashes.iter().map(|hash| hash.0).collect(),
            answers: Some(wire::answers(&probe.answers)),
            ..prepared
        }
    }

    /// The tokens of what `Prepare` got, made off the async threads unless it is little. The work keeps its
    /// place in the queue even when the caller leaves: it cannot be stopped in the middle.
    async fn tokens(&self, input: v1::prepare_request::Input) -> Result<Arc<[Token]>, Status> {
        use v1::prepare_request::Input;
        let (pieces, bytes) = size(&input);
        let write: Write = match input {
            Input::TokenIds(ids) => return token_ids(&ids.ids, self.tokenizer.vocabulary().len()),
            Input::Text(text) => Box::new(|_| Ok(vec![Segment::User(text)])),
            Input::Chat(input) => Box::new(|template| chat(input, template)),
        };
        if pieces <= INLINE_MESSAGES && bytes <= INLINE_BYTES {
            return Ok(text::encode(&write(&self.template)?, &*self.tokenizer).into());
        }
        let place = self.preparing.clone().try_acquire_owned();
        let place = place.map_err(|_| exhausted("too many requests are being prepared"))?;
        let turn = self.tokenising.clone().acquire_owned().await;
        let (tokenizer, template) = (self.tokenizer.clone(), self.template.clone());
        let work = move || {
            let _held = (place, turn);
            Ok(text::encode(&write(&template)?, &*tokenizer).into())
        };
        tokio::task::spawn_blocking(work)
            .await
            .map_err(|error| Status::internal(format!("the tokeniser failed: {error}")))?
    }

    fn submission(
        &self,
        id: RequestId,
        request: &v1::GenerateRequest,
    ) -> Result<Submission, Status> {
        let desk = Desk {
            now: self.watch.clock.now(),
            context_tokens: self.context_tokens,
            vocabulary: self.tokenizer.vocabulary(),
            seed: random(),
            honours: &|epoch| self.watch.honours(epoch),
        };
        desk.submission(request, self.prompt(id, request)?)
    }

    fn prompt(&self, id: RequestId, request: &v1::GenerateRequest) -> Result<Arc<[Token]>, Status> {
        use v1::generate_request::Prompt;
        match &request.prompt {
            Some(Prompt::TokenIds(ids)) => token_ids(&ids.ids, self.tokenizer.vocabulary().len()),
            Some(Prompt::Prepared(_)) => {
                let kept = self.pantry().take(self.watch.clock.now(), id);
                kept.ok_or_else(|| Status::not_found(format!("request {id} is not prepared")))
            }
            None => Err(invalid("prompt", "missing")),
        }
    }
}

#[tonic::async_trait]
impl Engine for EngineService {
    type GenerateStream = Answers;
    type WatchStream = ReceiverStream<Result<v1::WatchEvent, Status>>;

    async fn prepare(
        &self,
        request: Request<v1::PrepareRequest>,
    ) -> Result<Response<v1::PrepareResponse>, Status> {
        let request = request.into_inner();
        let id = request_id(&request.request_id)?;
        let input = request.input.ok_or_else(|| invalid("input", "missing"))?;
        if let Some(least) = self.hopeless(&input) {
            return Ok(Response::new(self.prepared(least)));
        }
        let tokens = self.tokens(input).await?;
        let length = u32::try_from(tokens.len()).map_err(|_| invalid("input", "it is too long"))?;
        if length == 0 {
            return Err(invalid("input", "it has no tokens"));
        }
        let ids = request
            .return_token_ids
            .then(|| v1::TokenIds { ids: tokens.iter().map(|token| token.0).collect() });
        let mut prepared = self.prepared(length);
        if length < self.context_tokens {
            prepared = self.probe(&tokens, prepared);
            if prepared.cached_tokens > 0 {
                touch(&self.commands, &self.touching, tokens.clone());
            }
            let kept = self.pantry().keep(self.watch.clock.now(), id, tokens);
            kept.map_err(|full| exhausted(full.to_string()))?;
        }
        Ok(Response::new(v1::PrepareResponse { token_ids: ids, ..prepared }))
    }

    async fn generate(
        &self,
        request: Request<v1::GenerateRequest>,
    ) -> Result<Response<Answers>, Status> {
        let request = request.into_inner();
        let id = request_id(&request.request_id)?;
        let stops = stops(&request.stop)?;
        let place = self.generating.clone().try_acquire_owned();
        let place = Arc::new(place.map_err(|_| exhausted("too many requests are open"))?);
        let submission = self.submission(id, &request)?;

        let (listener, mut heard) = mpsc::unbounded_channel();
        let serial = self.serials.fetch_add(1, Ordering::Relaxed);
        let annotated = submission.top_logprobs.is_some();
        let outlet = Box::new(Outlet::new(serial, stops, annotated, listener));
        self.send(Message::Submit(Box::new(submission), outlet, place.clone()))?;
        let mut cancel = CancelOnDrop { id, serial, commands: Some(self.commands.clone()) };
        let first = heard.recv().await;
        let Some(first) = first else {
            return Err(Status::unavailable("the engine thread is gone"));
        };
        if let Answer::Refused(refusal) = &first {
            cancel.commands = None;
            return Err(refused(refusal));
        }
        let tokenizer = self.tokenizer.clone();
        Ok(Response::new(Answers { first: Some(first), heard, tokenizer, cancel, _place: place }))
    }

    async fn watch(
        &self,
        request: Request<Streaming<v1::WatchRequest>>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let place = self.watchers.clone().try_acquire_owned();
        let place = place.map_err(|_| exhausted("too many watchers"))?;
        let events = watch::start(self.watch.clone(), place, request.into_inner()).await?;
        Ok(Response::new(ReceiverStream::new(events)))
    }

    async fn control(
        &self,
        request: Request<v1::ControlRequest>,
    ) -> Result<Response<v1::ControlResponse>, Status> {
        use v1::control_request::Command;
        match request.into_inner().command {
            Some(Command::Drain(_)) => self.send(Message::Drain)?,
            Some(Command::Cancel(cancel)) => {
                self.send(Message::Cancel(request_id(&cancel.request_id)?))?;
            }
            None => return Err(invalid("command", "missing")),
        }
        Ok(Response::new(v1::ControlResponse {}))
    }

    async fn info(
        &self,
        _: Request<v1::InfoRequest>,
    ) -> Result<Response<v1::InfoResponse>, Status> {
        let now = self.watch.clock.now();
        let published = self.watch.hub.latest();
        let snapshot = &published.snapshot;
        let model = &self.facts.model;
        let vocabulary = u32::try_from(self.tokenizer.vocabulary().len()).unwrap_or(u32::MAX);
        Ok(Response::new(v1::InfoResponse {
            engine_instance: self.watch.instance.clone(),
            version: env!("CARGO_PKG_VERSION").into(),
            model: Some(v1::ModelInfo {
                id: model.id.clone(),
                architecture: model.architecture.clone(),
                sha256: self.facts.sha256.get().cloned().unwrap_or_default(),
                file_bytes: model.file_bytes,
                context_train_tokens: model.context_train,
                vocabulary,
                created: self.facts.created,
                derived_from: model.derived.as_ref().map(wire::derived_from),
            }),
            backend: self.facts.backend.into(),
            layout: self.watch.told.layout.into(),
            scheduler: discipline(snapshot.limits.rules.discipline).into(),
            planner_version: sched::PLANNER_VERSION.into(),
            limits: Some(wire::limits(&snapshot.limits)),
            cost: Some(wire::cost(&snapshot.cost)),
            uptime_us: now.0,
            heartbeat_age_us: now.since(published.at).0,
            draining: snapshot.draining,
            running: snapshot.running,
            waiting: u32::try_from(snapshot.sequences.len()).unwrap_or(u32::MAX) - snapshot.running,
            kv: Some(wire::kv(&snapshot.kv)),
            stuck: published.is_stuck(now),
            scheduling: Some(self.watch.told.wire(&snapshot.limits.rules)),
            cost_source: wire::cost_source(self.facts.cost_source).into(),
        }))
    }
}

/// The events of one request. Dropping it cancels the request, wherever it is.
pub(crate) struct Answers {
    first: Option<Answer>,
    heard: mpsc::UnboundedReceiver<Answer>,
    tokenizer: Arc<dyn Tokenizer>,
    cancel: CancelOnDrop,
    _place: Arc<OwnedSemaphorePermit>,
}

impl Stream for Answers {
    type Item = Result<v1::GenerateEvent, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = match self.first.take() {
            Some(first) => Some(first),
            None => match self.heard.poll_recv(context) {
                Poll::Ready(next) => next,
                Poll::Pending => return Poll::Pending,
            },
        };
        if matches!(next, None | Some(Answer::Finished { .. })) {
            self.cancel.commands = None;
        }
        let vocabulary = self.tokenizer.vocabulary();
        Poll::Ready(next.and_then(|answer| wire::answer(answer, vocabulary)).map(Ok))
    }
}

/// A client that leaves is an event, sent from here only.
struct CancelOnDrop {
    id: RequestId,
    serial: u64,
    commands: Option<Sender<Message>>,
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if let Some(commands) = self.commands.take() {
            // A loop that is gone has cancelled everything.
            let _ = commands.send(Message::Left(self.id, self.serial));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn touches_do_not_pile_up_while_a_step_runs() {
        let (commands, inbox) = std::sync::mpsc::channel();
        let touching = Arc::new(Semaphore::new(2));
        let touch_thrice = || (0..3).for_each(|_| touch(&commands, &touching, [Token(1)].into()));
        touch_thrice();
        assert_eq!(inbox.try_iter().count(), 2);
        touch_thrice();
        assert_eq!(inbox.try_iter().count(), 2, "there is room again");
    }
}
