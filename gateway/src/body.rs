//! Reads a request's body, bounded in bytes and in time while it arrives.

use actix_web::{
    HttpRequest, dev,
    http::header,
    web::{Bytes, BytesMut, Payload},
};
use futures_util::StreamExt as _;
use tokio::time::timeout;

use crate::{error::ApiError, settings::Settings};

/// Room made before anything has arrived, in bytes; more only as it comes.
const FIRST_ROOM: usize = 16 << 10;

/// A body that nobody read to its end. The response holds it until it has gone out: while it is held
/// the server takes the connection as not reusable and closes it; otherwise it would go on reading for
/// as long as the client likes to send.
pub(crate) struct Unread(#[expect(dead_code, reason = "held")] pub(crate) dev::Payload);

/// The whole body of a JSON request.
///
/// # Errors
/// Another content type, too many bytes, too much time, a body that breaks off.
pub(crate) async fn read(
    request: &HttpRequest,
    payload: &mut Payload,
    settings: &Settings,
) -> Result<Bytes, ApiError> {
    if !is_json(request) {
        return Err(ApiError::ContentType);
    }
    let limit_bytes = settings.body_bytes_max;
    let announced = content_length(request).unwrap_or(0);
    if announced > limit_bytes {
        return Err(ApiError::BodyTooLarge { limit_bytes });
    }
    let limit = settings.body_timeout();
    match timeout(limit, collect(payload, announced, limit_bytes)).await {
        Ok(outcome) => outcome,
        Err(_) => Err(ApiError::BodyTimeout { limit: limit.into() }),
    }
}

async fn collect(
    payload: &mut Payload,
    announced: usize,
    limit_bytes: usize,
) -> Result<Bytes, ApiError> {
    let mut body = BytesMut::with_capacity(announced.min(FIRST_ROOM));
    while let Some(chunk) = payload.next().await {
        let chunk = chunk.map_err(|error| ApiError::Invalid {
            message: format!("the body could not be read: {error}"),
            param: None,
            code: None,
        })?;
        if body.len() + chunk.len() > limit_bytes {
            return Err(ApiError::BodyTooLarge { limit_bytes });
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body.freeze())
}

fn content_length(request: &HttpRequest) -> Option<usize> {
    request.headers().get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn is_json(request: &HttpRequest) -> bool {
    let Some(value) = request.headers().get(header::CONTENT_TYPE) else { return false };
    let essence = value.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/json")
}
