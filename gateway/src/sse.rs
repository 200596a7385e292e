//! Answers as server-sent events.
//!
//! Opening -> pieces ... -> finish reason of each choice -> usage, if asked for -> `[DONE]`; or, at any point after
//! the opening, one error event and the end. Only `data:` records and comments are ever sent, because
//! clients stumble over everything else. The next record is made when the socket has taken the last, so
//! a slow reader slows the engine's stream down and nothing piles up here.

use std::{convert::Infallible, future::pending, pin::Pin, time::Duration};

use actix_web::web::Bytes;
use futures_util::{Stream, stream};
use tokio::time::{Instant, Sleep, sleep};

use crate::{
    drain::Ending,
    error::ApiError,
    generation::{Event, Generation},
    metrics,
    openai::{Records, error_record},
};

const HEARTBEAT: Bytes = Bytes::from_static(b": keep-alive\n\n");

/// What a streamed answer is made of.
pub(crate) struct Source {
    pub(crate) generation: Generation,
    pub(crate) records: Records,
    /// What goes out first; nothing where an answer begins with its first token.
    pub(crate) opening: Vec<u8>,
    /// Whether the usage is told at the end.
    pub(crate) include_usage: bool,
    /// How long the stream may be silent.
    pub(crate) heartbeat: Option<Duration>,
    pub(crate) ending: Ending,
}

/// The events of an answer, from the opening on.
pub(crate) fn events(mut source: Source) -> impl Stream<Item = Result<Bytes, Infallible>> {
    let silence = source.heartbeat.map(|limit| (limit, Box::pin(sleep(limit))));
    let opening = Some(std::mem::take(&mut source.opening)).filter(|bytes| !bytes.is_empty());
    let answer = Answer { source, silence, opening };
    stream::unfold(Some(answer), |answer| async {
        let (bytes, answer) = answer?.step().await;
        Some((Ok(bytes), answer))
    })
}

struct Answer {
    source: Source,
    /// How long the stream may be silent, and the timer that says when it was.
    silence: Option<(Duration, Pin<Box<Sleep>>)>,
    /// Until it has gone out.
    opening: Option<Vec<u8>>,
}

/// What a step waited for.
enum Woken {
    Event(Result<Event, ApiError>),
    Silence,
    Ending,
}

impl Answer {
    /// The next bytes, and what is left of the answer.
    async fn step(mut self) -> (Bytes, Option<Self>) {
        if let Some(opening) = self.opening.take() {
            return (opening.into(), Some(self));
        }
        let woken = self.wait().await;
        if let Some((limit, timer)) = &mut self.silence {
            timer.as_mut().reset(Instant::now() + *limit);
        }
        match woken {
            Woken::Event(Ok(event)) => self.tell(event),
            Woken::Event(Err(error)) => (failed(&error), None),
            Woken::Silence => (HEARTBEAT, Some(self)),
            Woken::Ending => {
                self.source.generation.abandon();
                (failed(&ApiError::Draining), None)
            }
        }
    }

    fn tell(mut self, event: Event) -> (Bytes, Option<Self>) {
        let records = &mut self.source.records;
        match event {
            Event::Piece { choice, text, logprobs } => {
                (records.piece(choice, &text, &logprobs).into(), Some(self))
            }
            Event::Finished { choice, reason, usage: None } => {
                (records.finish(choice, reason).into(), Some(self))
            }
            Event::Finished { choice, reason, usage: Some(usage) } => {
                let mut out = records.finish(choice, reason);
                records.end(&mut out, self.source.include_usage.then_some(usage));
                (out.into(), None)
            }
        }
    }

    async fn wait(&mut self) -> Woken {
        let silence = async {
            match &mut self.silence {
                Some((_, timer)) => timer.as_mut().await,
                None => pending().await,
            }
        };
        tokio::select! {
            biased;
            event = self.source.generation.next() => Woken::Event(event),
            () = self.source.ending.begun() => Woken::Ending,
            () = silence => Woken::Silence,
        }
    }
}

fn failed(error: &ApiError) -> Bytes {
    metrics::stream_error(error.code());
    error_record(error).into()
}
