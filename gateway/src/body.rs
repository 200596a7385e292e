//! Reads a request's body, bounded in bytes and in time while it arrives, and beside all others.

use std::{
    cell::RefCell,
    ops::Deref,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
    time::Duration,
};

use actix_web::{
    HttpRequest, dev,
    error::PayloadError,
    http::header,
    web::{Bytes, Data, Payload},
};
use futures_util::{Stream, StreamExt as _};
use tokio::time::timeout;

use crate::{
    budget::Share,
    buffer::Buffer,
    connection::Progress,
    error::ApiError,
    settings::Settings,
    shared::{Gateway, Shared},
};

/// Room made before anything has arrived, in bytes; more only as it comes. So much of a body is free:
/// the limit of connections bounds it, and a few large bodies cannot lock out the many small ones.
const FIRST_ROOM: usize = 16 << 10;
/// What is left of a body is read after the answer is known, up to so many bytes and so long, if that
/// saves the connection.
const DRAIN_BYTES_MAX: u64 = 64 << 10;
const DRAIN_TIME_MAX: Duration = Duration::from_millis(200);

/// A body that nobody read to its end. The response holds it until it has gone out: while it is held
/// the server takes the connection as not reusable and closes it; otherwise it would go on reading for
/// as long as the client likes to send.
pub(crate) struct Unread(pub(crate) dev::Payload);

impl Unread {
    /// Reads the rest of a body that was announced to be so long. Says whether that was all of it.
    pub(crate) async fn drain(&mut self, announced: Option<u64>) -> bool {
        let mut left = DRAIN_BYTES_MAX;
        let drained = async {
            while let Some(chunk) = self.0.next().await {
                let Ok(chunk) = chunk else { return false };
                let Some(less) = left.checked_sub(chunk.len() as u64) else { return false };
                left = less;
            }
            true
        };
        // A long body may have been read already; if not, it is not worth waiting for.
        let is_long = announced.is_some_and(|bytes| bytes > DRAIN_BYTES_MAX);
        let patience = if is_long { Duration::ZERO } else { DRAIN_TIME_MAX };
        timeout(patience, drained).await.unwrap_or(false)
    }
}

/// A body whose reader may come to grief: what he left unread can still be had. Clones share it.
#[derive(Clone)]
pub(crate) struct Lent(Rc<RefCell<dev::Payload>>);

impl Lent {
    /// Lends out a body, if there is one.
    pub(crate) fn out(payload: dev::Payload) -> (dev::Payload, Option<Self>) {
        if matches!(payload, dev::Payload::None) {
            return (payload, None);
        }
        let lent = Self(Rc::new(RefCell::new(payload)));
        (lent.clone().back().0, Some(lent))
    }

    /// What is left of it.
    pub(crate) fn back(self) -> Unread {
        Unread(dev::Payload::Stream { payload: Box::pin(self) })
    }
}

impl Stream for Lent {
    type Item = Result<Bytes, PayloadError>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Pin::new(&mut *self.0.borrow_mut()).poll_next(context)
    }
}

/// A body that was read to its end.
#[derive(Debug)]
pub(crate) struct Body {
    bytes: Buffer,
    share: Share,
}

impl Body {
    /// Lets go of what was sent, of which `bytes` live on in another form.
    pub(crate) fn keep(mut self, bytes: usize) -> Share {
        self.share.shrink_to(bytes.saturating_sub(FIRST_ROOM));
        self.share
    }
}

impl Deref for Body {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

/// The whole body of a JSON request, with its share of the budget.
///
/// # Errors
/// Another content type, too many bytes, too much time, no room beside the other bodies, a body that
/// breaks off, the end of the process.
pub(crate) async fn read(
    request: &HttpRequest,
    payload: &mut Payload,
    settings: &Settings,
) -> Result<Body, ApiError> {
    if !is_json(request) {
        return Err(ApiError::ContentType);
    }
    let limit_bytes = settings.http.body_bytes_max;
    let announced = content_length(request).unwrap_or(0);
    if announced > limit_bytes {
        return Err(ApiError::BodyTooLarge { limit_bytes });
    }
    let gateway = request.app_data::<Data<Gateway>>().expect("the application has its data");
    let shared: &Shared = &gateway.shared;
    let mut share = shared.bodies.share();
    let limit = settings.http.body_timeout();
    let mut ending = shared.drain.ending();
    let bytes = tokio::select! {
        outcome = timeout(limit, collect(payload, announced, limit_bytes, &mut share)) => {
            outcome.map_err(|_| ApiError::BodyTimeout { limit: limit.into() })??
        }
        () = ending.begun() => return Err(ApiError::Draining),
    };
    if let Some(progress) = request.conn_data::<Progress>() {
        progress.body_done();
    }
    Ok(Body { bytes, share })
}

async fn collect(
    payload: &mut Payload,
    announced: usize,
    limit_bytes: usize,
    share: &mut Share,
) -> Result<Buffer, ApiError> {
    let mut body = Buffer::with_room(announced.min(FIRST_ROOM));
    while let Some(chunk) = payload.next().await {
        let chunk = chunk.map_err(|error| ApiError::BodyBroken { reason: error.to_string() })?;
        let bytes = body.len() + chunk.len();
        if bytes > limit_bytes {
            return Err(ApiError::BodyTooLarge { limit_bytes });
        }
        if !share.grow_to(bytes.saturating_sub(FIRST_ROOM)) {
            return Err(ApiError::BodiesFull);
        }
        body.extend(&chunk).map_err(|_| ApiError::BodiesFull)?;
    }
    Ok(body)
}

fn content_length(request: &HttpRequest) -> Option<usize> {
    request.headers().get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn is_json(request: &HttpRequest) -> bool {
    let Some(value) = request.headers().get(header::CONTENT_TYPE) else { return false };
    let essence = value.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/json")
}
