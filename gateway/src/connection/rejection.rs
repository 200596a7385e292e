//! Answers to what never became a request.
//!
//! The HTTP parser refuses by itself, with a bare status line that nothing can be hung on. It is the
//! last thing on its connection and looks like nothing else that is ever sent (every answer of ours has
//! an id), so the socket recognises it and sends the whole answer in its place.

use actix_web::ResponseError as _;

use crate::{cors::Cors, edge, error::ApiError};

/// What the parser says, and what it means.
const STATUS_LINES: [(&[u8], Meaning); 4] = [
    (b" 400 Bad Request\r\n", Meaning::Malformed),
    (b" 408 Request Timeout\r\n", Meaning::HeadTimeout),
    (b" 431 Request Header Fields Too Large\r\n", Meaning::HeadTooLarge),
    (b" 500 Internal Server Error\r\n", Meaning::Internal),
];
const VERSIONS: [&[u8]; 2] = [b"HTTP/1.1", b"HTTP/1.0"];
const EMPTY: &[u8] = b"content-length: 0\r\n";
const CLOSE: &[u8] = b"connection: close\r\n";
/// `date: Mon, 30 Nov 2026 14:44:21 GMT` and two line ends.
const DATE_BYTES: usize = 6 + 29 + 4;

/// Why bytes did not become a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    Malformed,
    HeadTimeout,
    HeadTooLarge,
    Internal,
}

impl Meaning {
    pub(super) fn error(self) -> ApiError {
        match self {
            Self::Malformed => ApiError::Malformed,
            Self::HeadTimeout => ApiError::HeadTimeout,
            Self::HeadTooLarge => ApiError::HeadTooLarge,
            Self::Internal => ApiError::Internal,
        }
    }
}

/// Where in what is about to be sent the parser's own refusal begins, and its meaning. It always ends
/// what is sent.
pub(super) fn find(bytes: &[u8]) -> Option<(usize, Meaning)> {
    let head = bytes.strip_suffix(b"\r\n\r\n")?;
    let head = &head[..head.len().checked_sub(DATE_BYTES - 4)?];
    let date = &bytes[head.len()..];
    if !date.starts_with(b"date: ") {
        return None;
    }
    let head = head.strip_suffix(CLOSE).unwrap_or(head).strip_suffix(EMPTY)?;
    STATUS_LINES.iter().find_map(|(line, meaning)| {
        let head = head.strip_suffix(*line)?;
        let before = VERSIONS.iter().find_map(|version| head.strip_suffix(*version))?;
        Some((before.len(), *meaning))
    })
}

/// An answer with everything that answers have, to be followed by the end of the connection.
pub(super) fn answer(error: &ApiError, cors: &Cors) -> Vec<u8> {
    let mut response = error.error_response();
    edge::mark(response.headers_mut(), edge::new_id());
    cors.allow_unasked(response.headers_mut());
    let body = serde_json::to_vec(&error.envelope()).expect("plain data");
    let mut bytes = format!(
        "HTTP/1.1 {}\r\ncontent-length: {}\r\nconnection: close\r\n",
        response.status(),
        body.len()
    )
    .into_bytes();
    for (name, value) in response.headers() {
        bytes.extend([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
    }
    bytes.extend_from_slice(b"\r\n");
    bytes.extend(body);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATE: &str = "date: Mon, 30 Nov 2026 14:44:21 GMT\r\n\r\n";

    fn found(head: &str) -> Option<(usize, Meaning)> {
        find(format!("{head}{DATE}").as_bytes())
    }

    #[test]
    fn bare_refusals_are_found_at_the_end_of_what_is_sent() {
        for (head, meaning) in [
            ("HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n", Meaning::Malformed),
            (
                "HTTP/1.0 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n",
                Meaning::Malformed,
            ),
            (
                "HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\n",
                Meaning::HeadTooLarge,
            ),
        ] {
            assert_eq!(found(head), Some((0, meaning)), "{head}");
            assert_eq!(found(&format!("before{head}")), Some((6, meaning)), "{head}");
        }
    }

    #[test]
    fn nothing_else_is_taken_for_one() {
        for head in [
            "",
            "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n",
            "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nx-request-id: 1\r\n",
            "HTTP/1.1 400 Bad Request\r\ncontent-length: 2\r\n",
            "HTTP/1.1 500 Internal Server Error\r\n",
        ] {
            assert_eq!(found(head), None, "{head}");
        }
        for bytes in ["", "\r\n\r\n", "0\r\n\r\n", "content-length: 0\r\n\r\n"] {
            assert_eq!(find(bytes.as_bytes()), None, "{bytes:?}");
        }
    }

    #[test]
    fn an_answer_is_whole() {
        let text = String::from_utf8(answer(&ApiError::Malformed, &Cors::any())).expect("text");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        assert!(head.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{head}");
        for header in [
            "connection: close",
            "content-type: application/json",
            "access-control-allow-origin: *",
            &format!("content-length: {}", body.len()),
        ] {
            assert!(head.lines().any(|line| line == header), "{header} is not in {head}");
        }
        assert!(head.contains("\r\nx-request-id: "), "{head}");
        assert!(body.starts_with(r#"{"error":{"message":""#), "{body}");
    }
}
