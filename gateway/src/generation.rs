//! The answer to a request that an engine has accepted.
//!
//! A [`Generation`] yields pieces until it finishes or fails. Before the first piece the loss of the engine
//! is nobody's concern but ours: the request is brought into another engine once, if there is one; after
//! it, a second answer would contradict the first. Dropping it cancels the request upstream.

use std::{pin::Pin, sync::Arc};

use proto::v1::TokenLogprob;
use units::{Micros, Span};

use crate::{
    batch::{Batch, Heard, Promise},
    entry::Entry,
    error::ApiError,
    metrics::{self, Progress},
    openai::Usage,
    probe::Served,
    shared::Shared,
};

/// What an accepted request yields.
#[derive(Debug)]
pub(crate) enum Event {
    /// More of a choice: text, log probabilities or both.
    Piece { choice: usize, text: String, logprobs: Vec<TokenLogprob> },
    /// The end of a choice, and no failure.
    Finished {
        choice: usize,
        /// `stop` or `length`.
        reason: &'static str,
        /// Of the whole request: with the last choice, and with it everything has ended.
        usage: Option<Usage>,
    },
}

/// A request that an engine has accepted.
pub(crate) struct Generation {
    batch: Batch,
    entry: Entry,
    /// Says when nothing more will come of the engine.
    forsaken: Forsaken,
    /// On the way into another engine.
    restart: Option<Restart>,
    /// Whether the client has got a part of the answer.
    spoken: bool,
    /// What the client was told about timing, if it was.
    told: Option<Promise>,
    life: Life,
}

type Forsaken = Pin<Box<dyn Future<Output = ApiError>>>;
type Restart = Pin<Box<dyn Future<Output = (Entry, Result<Batch, ApiError>)>>>;

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

    fn saw_token(&mut self) {
        if self.progress == Some(Progress::Prefill) {
            metrics::first_token(self.age());
            self.progress = Some(Progress::Decode);
        }
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
    pub(crate) fn new(batch: Batch, entry: Entry, mut life: Life) -> Self {
        life.progress = Some(Progress::Prefill);
        let forsaken = Box::pin(entry.forsaken());
        Self { batch, entry, forsaken, restart: None, spoken: false, told: None, life }
    }

    /// How many choices there are.
    pub(crate) fn choices(&self) -> usize {
        self.batch.len()
    }

    /// What each choice begins with where the prompt is echoed.
    pub(crate) fn echo(&self, choice: usize) -> Option<&str> {
        self.entry.echo(choice)
    }

    /// What serves it.
    pub(crate) fn served(&self) -> &Served {
        self.entry.served()
    }

    /// What the client is told about timing. From here on nothing less will do.
    pub(crate) fn tell(&mut self) -> Promise {
        *self.told.insert(self.batch.promise)
    }

    /// What comes next. Nothing may be asked after the end or an error. May be dropped and called
    /// again without loss.
    ///
    /// # Errors
    /// The answer is not complete and will not be.
    pub(crate) async fn next(&mut self) -> Result<Event, ApiError> {
        let outcome = self.next_event().await;
        match &outcome {
            Ok(Event::Piece { .. }) => self.spoken = true,
            Ok(Event::Finished { usage: None, .. }) => {}
            Ok(Event::Finished { usage: Some(_), .. }) => {
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
            if let Some(restart) = &mut self.restart {
                let (entry, outcome) = restart.await;
                self.restart = None;
                self.forsaken = Box::pin(entry.forsaken());
                self.entry = entry;
                self.go_on_with(outcome?)?;
            }
            let heard = tokio::select! {
                biased;
                heard = self.batch.next() => heard,
                error = &mut self.forsaken => Err(error),
            };
            match heard {
                Ok((choice, Heard::Delta(delta))) => {
                    if delta.tokens > 0 {
                        self.life.saw_token();
                    }
                    if !delta.text.is_empty() || !delta.logprobs.is_empty() {
                        let (text, logprobs) = (delta.text, delta.logprobs);
                        return Ok(Event::Piece { choice, text, logprobs });
                    }
                }
                Ok((choice, Heard::Finished { reason, usage })) => {
                    self.spoken = true;
                    return Ok(Event::Finished { choice, reason, usage });
                }
                Err(error) if error.lost_engine() && !self.spoken => self.start_again(error)?,
                Err(error) => return Err(error),
            }
        }
    }

    /// # Errors
    /// There is no other engine; then it is `error` that the client hears of.
    fn start_again(&mut self, error: ApiError) -> Result<(), ApiError> {
        let Some(entry) = self.entry.elsewhere(&error, self.told.is_some()) else {
            return Err(error);
        };
        self.batch.cancel();
        self.restart = Some(Box::pin(async move {
            let outcome = entry.enter().await;
            (entry, outcome)
        }));
        Ok(())
    }

    /// # Errors
    /// The client was told more than this engine promises.
    fn go_on_with(&mut self, batch: Batch) -> Result<(), ApiError> {
        if self.told.is_some_and(|told| !batch.promise.keeps(&told)) {
            return Err(ApiError::Cut);
        }
        self.batch = batch;
        Ok(())
    }
}
