//! One request and its answer, with the time of everything.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{
    HeaderMap, Method, Request, Response,
    body::Incoming,
    header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HOST, HeaderName, HeaderValue},
};
use tokio::sync::mpsc;
use units::Micros;

use super::{
    Class, Client, Failure,
    chunk::{self, Usage},
    connect::Sender,
    sse::{self, Event},
};
use crate::clock::Clock;

/// Bytes of an error's body that are read.
const ERROR_BYTES_MAX: usize = 64 * 1024;
/// How long the connection may take to be ready again after the last event.
const TAIL: Duration = Duration::from_millis(200);
/// Gaps of one answer that are kept: beyond a server's longest answer, and bounded.
const GAPS_MAX: usize = 100_000;

/// What to send.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) max_tokens: u32,
    /// Hears of the first content.
    pub(crate) on_first_token: Option<mpsc::UnboundedSender<()>>,
}

/// When what happened, as far as it got: filled while it happens, so that a request that is given up
/// still says how far it was.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trail {
    pub(crate) sent: Option<Micros>,
    pub(crate) head: Option<Micros>,
    pub(crate) first_token: Option<Micros>,
    pub(crate) last_token: Option<Micros>,
    pub(crate) status: Option<u16>,
    /// Events with content.
    pub(crate) chunks: u32,
    /// Microseconds between them.
    pub(crate) gaps_us: Vec<u32>,
    pub(crate) headers: HeaderMap,
    pub(crate) answer: Answer,
}

/// What the server said about its answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) finish_reason: Option<String>,
    pub(crate) prompt_tokens: Option<u32>,
    pub(crate) completion_tokens: Option<u32>,
    pub(crate) cached_tokens: Option<u32>,
}

impl Call {
    /// Headers of every call: type, key, and what the user wants besides.
    ///
    /// # Errors
    /// The key has characters that no header may have.
    pub(crate) fn headers(
        key: Option<&str>,
        extra: &[(HeaderName, HeaderValue)],
    ) -> anyhow::Result<HeaderMap> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(key) = key {
            let mut value = HeaderValue::from_str(&format!("Bearer {key}"))?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        for (name, value) in extra {
            headers.insert(name.clone(), value.clone());
        }
        Ok(headers)
    }
}

impl Client {
    /// Sends `call` and reads its stream to the end.
    ///
    /// # Errors
    /// Whatever is not a whole, sensible answer.
    pub(crate) async fn perform(
        &self,
        call: &Call,
        clock: &Clock,
        trail: &mut Trail,
    ) -> Result<(), Failure> {
        let (response, sender) = self.send(Method::POST, call, clock, trail).await?;
        trail.head = Some(clock.now());
        let status = response.status().as_u16();
        trail.status = Some(status);
        trail.headers = response.headers().clone();
        if status != 200 {
            return Err(self.read_error(status, response, sender).await);
        }
        if !is_event_stream(response.headers()) {
            let kind = response.headers().get(CONTENT_TYPE);
            return Err(Failure::new(Class::NotSse, format!("200 with content-type {kind:?}")));
        }
        if let Some(encoding) = encoding(response.headers()) {
            return Err(Failure::new(
                Class::NotSse,
                format!("200 with content-encoding {encoding:?}"),
            ));
        }
        let mut body = response.into_body();
        read_stream(&mut body, call, clock, trail).await?;
        self.reclaim(body, sender);
        Ok(())
    }

    /// The same, given up after so many seconds.
    ///
    /// # Errors
    /// The same, or it took longer.
    pub(crate) async fn perform_within(
        &self,
        secs: u64,
        call: &Call,
        clock: &Clock,
        trail: &mut Trail,
    ) -> Result<(), Failure> {
        let performed = self.perform(call, clock, trail);
        tokio::time::timeout(Duration::from_secs(secs), performed)
            .await
            .unwrap_or_else(|_| Err(Failure::new(Class::Timeout, format!("no end after {secs} s"))))
    }

    /// A plain GET: status and at most 64 KiB of body.
    ///
    /// # Errors
    /// No answer, or a longer one.
    pub(crate) async fn get(
        &self,
        path: String,
        headers: HeaderMap,
    ) -> Result<(u16, HeaderMap, Bytes), Failure> {
        let call = Call { path, headers, body: Bytes::new(), max_tokens: 0, on_first_token: None };
        let clock = Clock::starting_in(Duration::ZERO);
        let (response, _) = self.send(Method::GET, &call, &clock, &mut Trail::default()).await?;
        let (head, body) = response.into_parts();
        let body = Limited::new(body, ERROR_BYTES_MAX).collect().await;
        let body = body.map_err(|error| Failure::new(Class::Truncated, error.to_string()))?;
        Ok((head.status.as_u16(), head.headers, body.to_bytes()))
    }

    /// Sends on an idle connection or on a new one. An idle one that turns out to have been closed by the
    /// server meanwhile is nobody's failure: a new one is tried, as every client does.
    async fn send(
        &self,
        method: Method,
        call: &Call,
        clock: &Clock,
        trail: &mut Trail,
    ) -> Result<(Response<Incoming>, Sender), Failure> {
        if let Some(mut sender) = self.idle() {
            trail.sent = Some(clock.now());
            match sender.send_request(self.request(&method, call)).await {
                Ok(response) => return Ok((response, sender)),
                Err(error) if was_closed(&error) => {}
                Err(error) => return Err(of_exchange(&error)),
            }
        }
        let mut sender = self.connect().await?;
        trail.sent = Some(clock.now());
        let response = sender.send_request(self.request(&method, call)).await;
        Ok((response.map_err(|error| of_exchange(&error))?, sender))
    }

    fn request(&self, method: &Method, call: &Call) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(call.body.clone()));
        *request.method_mut() = method.clone();
        *request.uri_mut() = call.path.parse().expect("the path of a URL that was parsed");
        *request.headers_mut() = call.headers.clone();
        let authority = HeaderValue::from_str(&self.target.authority());
        request.headers_mut().insert(HOST, authority.expect("the host of a URL that was parsed"));
        request
    }

    async fn read_error(
        &self,
        status: u16,
        response: Response<Incoming>,
        sender: Sender,
    ) -> Failure {
        let mut body = response.into_body();
        let text = Limited::new(&mut body, ERROR_BYTES_MAX).collect().await;
        let text = text.map(|text| text.to_bytes()).unwrap_or_default();
        self.reclaim(body, sender);
        let text = String::from_utf8_lossy(&text);
        Failure::new(Class::of_status(status), format!("{status}: {text}"))
    }

    /// Keeps the connection if it is soon ready again.
    fn reclaim(&self, mut body: Incoming, mut sender: Sender) {
        // The answer's time is taken: what follows must not count, and must not hold anything up.
        let ready = async move {
            while let Some(Ok(_)) = body.frame().await {}
            sender.ready().await.ok().map(|()| sender)
        };
        let pool = self.pool();
        tokio::spawn(async move {
            if let Ok(Some(sender)) = tokio::time::timeout(TAIL, ready).await {
                pool.give(sender);
            }
        });
    }
}

async fn read_stream(
    body: &mut Incoming,
    call: &Call,
    clock: &Clock,
    trail: &mut Trail,
) -> Result<(), Failure> {
    let (mut reader, mut events) = (sse::Reader::default(), Vec::new());
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Failure::of(Class::Truncated, &error))?;
        let now = clock.now();
        let Some(bytes) = frame.data_ref() else { continue };
        let read = reader.read(bytes, &mut events);
        for event in events.drain(..) {
            if event.data == b"[DONE]" {
                return trail.conclude(call.max_tokens);
            }
            trail.take(&event, now)?;
            if let Some(hears) = &call.on_first_token
                && trail.chunks == 1
            {
                // Who does not listen any more knows enough.
                let _ = hears.send(());
            }
        }
        read.map_err(|error| Failure::of(Class::Protocol, &error))?;
    }
    Err(Failure::new(Class::Truncated, "the stream ended without [DONE]"))
}

impl Trail {
    fn take(&mut self, event: &Event, now: Micros) -> Result<(), Failure> {
        if event.is_error {
            return Err(Failure::new(Class::InBandError, String::from_utf8_lossy(&event.data)));
        }
        let chunk = chunk::parse(&event.data)?;
        if chunk.has_content {
            self.content(now);
        }
        if let Some(reason) = chunk.finish_reason {
            self.answer.finish_reason = Some(reason);
        }
        if let Some(Usage { prompt, completion, cached }) = chunk.usage {
            self.answer.prompt_tokens = Some(prompt);
            self.answer.completion_tokens = Some(completion);
            self.answer.cached_tokens = cached;
        }
        Ok(())
    }

    fn content(&mut self, now: Micros) {
        self.chunks = self.chunks.saturating_add(1);
        if let Some(before) = self.last_token.replace(now) {
            let gap = u32::try_from(now.since(before).0).unwrap_or(u32::MAX);
            if self.gaps_us.len() < GAPS_MAX {
                self.gaps_us.push(gap);
            }
        } else {
            self.first_token = Some(now);
        }
    }

    /// The stream said that it is done: whether that can be.
    fn conclude(&self, max_tokens: u32) -> Result<(), Failure> {
        if self.answer.finish_reason.is_none() {
            return Err(Failure::new(Class::Truncated, "[DONE] without a finish_reason"));
        }
        let bad = |why: String| Err(Failure::new(Class::BadUsage, why));
        match self.answer.completion_tokens {
            Some(0) if self.chunks > 0 => bad("0 completion tokens, and there was text".into()),
            Some(said) if said > max_tokens => {
                bad(format!("{said} completion tokens of at most {max_tokens}"))
            }
            Some(_) | None => Ok(()),
        }
    }
}

fn is_event_stream(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("text/event-stream"))
}

/// How the body is packed, if it is: nobody asked for that.
fn encoding(headers: &HeaderMap) -> Option<&HeaderValue> {
    headers
        .get(CONTENT_ENCODING)
        .filter(|value| !value.as_bytes().eq_ignore_ascii_case(b"identity"))
}

/// Whether a connection had been closed before it was used.
fn was_closed(error: &hyper::Error) -> bool {
    let of_io = std::error::Error::source(error)
        .and_then(|source| source.downcast_ref::<std::io::Error>())
        .map(std::io::Error::kind);
    let gone = [std::io::ErrorKind::ConnectionReset, std::io::ErrorKind::BrokenPipe];
    error.is_canceled()
        || error.is_closed()
        || error.is_incomplete_message()
        || of_io.is_some_and(|kind| gone.contains(&kind))
}

fn of_exchange(error: &hyper::Error) -> Failure {
    let class =
        if error.is_parse() || error.is_user() { Class::Protocol } else { Class::Truncated };
    Failure::of(class, error)
}
