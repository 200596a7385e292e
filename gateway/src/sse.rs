//! Answers as server-sent events.
//!
//! Role -> text ... -> finish reason -> usage, if asked for -> `[DONE]`; or, at any point after the role, one error
//! event and the end. Only `data:` records and comments are ever sent, because clients stumble over
//! everything else. The next record is made when the socket has taken the last, so a slow reader slows
//! the engine's stream down and nothing piles up here.

use std::{convert::Infallible, future::pending, pin::Pin, time::Duration};

use actix_web::web::Bytes;
use futures_util::{Stream, stream};
use serde::Serialize;
use tokio::time::{Instant, Sleep, sleep};

use crate::{
    drain::Ending,
    error::ApiError,
    generation::{Event, Generation},
    metrics,
    openai::{Chunk, ChunkChoice, Delta, Head, Usage},
};

const HEARTBEAT: Bytes = Bytes::from_static(b": keep-alive\n\n");
const DONE: &[u8] = b"data: [DONE]\n\n";

/// What a streamed answer is made of.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) generation: Generation,
    pub(crate) head: Head,
    /// Whether the usage is told at the end.
    pub(crate) include_usage: bool,
    /// How long the stream may be silent.
    pub(crate) heartbeat: Option<Duration>,
    pub(crate) ending: Ending,
}

/// The events of an answer, from the role on.
pub(crate) fn events(source: Source) -> impl Stream<Item = Result<Bytes, Infallible>> {
    let silence = source.heartbeat.map(|limit| (limit, Box::pin(sleep(limit))));
    let answer = Answer { source, silence, begun: false };
    stream::unfold(Some(answer), |answer| async {
        let (bytes, answer) = answer?.step().await;
        Some((Ok(bytes), answer))
    })
}

struct Answer {
    source: Source,
    /// How long the stream may be silent, and the timer that says when it was.
    silence: Option<(Duration, Pin<Box<Sleep>>)>,
    begun: bool,
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
        if !self.begun {
            self.begun = true;
            let role = Delta { role: Some("assistant"), content: Some("") };
            return (self.chunk(role, None), Some(self));
        }
        let woken = self.wait().await;
        if let Some((limit, timer)) = &mut self.silence {
            timer.as_mut().reset(Instant::now() + *limit);
        }
        match woken {
            Woken::Event(Ok(Event::Text(text))) => {
                let content = Delta { role: None, content: Some(&text) };
                (self.chunk(content, None), Some(self))
            }
            Woken::Event(Ok(Event::Finished { reason, usage })) => (self.last(reason, usage), None),
            Woken::Event(Err(error)) => (failed(&error), None),
            Woken::Silence => (HEARTBEAT, Some(self)),
            Woken::Ending => {
                self.source.generation.abandon();
                (failed(&ApiError::Draining), None)
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

    fn chunk(&self, delta: Delta<'_>, finish_reason: Option<&'static str>) -> Bytes {
        let choices = [ChunkChoice { index: 0, delta, finish_reason }];
        let mut out = Vec::with_capacity(320);
        record(&mut out, &Chunk::new(&self.source.head, &choices, None));
        out.into()
    }

    fn last(&self, reason: &'static str, usage: Usage) -> Bytes {
        let mut out = self.chunk(Delta::default(), Some(reason)).to_vec();
        if self.source.include_usage {
            record(&mut out, &Chunk::new(&self.source.head, &[], Some(usage)));
        }
        out.extend_from_slice(DONE);
        out.into()
    }
}

fn failed(error: &ApiError) -> Bytes {
    metrics::stream_error(error.code());
    let mut out = Vec::new();
    record(&mut out, &error.envelope());
    out.into()
}

fn record(out: &mut Vec<u8>, data: &impl Serialize) {
    out.extend_from_slice(b"data: ");
    serde_json::to_writer(&mut *out, data).expect("plain data, and a vector takes every write");
    out.extend_from_slice(b"\n\n");
}
