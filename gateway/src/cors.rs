//! Cross-origin rules: a browser on any page may call, and may read what we say about a request.

use actix_web::{
    HttpResponse,
    http::header::{self, HeaderMap, HeaderValue},
};

const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, POST, OPTIONS");
/// Allowed when the browser does not say what it wants to send.
const REQUEST_HEADERS: HeaderValue = HeaderValue::from_static(
    "authorization, content-type, x-request-id, x-slo-e2e-ms, x-slo-ttft-ms, x-slo-patience-ms, \
     x-slo-mode, x-stainless-arch, x-stainless-lang, x-stainless-os, x-stainless-package-version, \
     x-stainless-retry-count, x-stainless-runtime, x-stainless-runtime-version, x-stainless-timeout, \
     x-stainless-helper-method",
);
const EXPOSED: HeaderValue = HeaderValue::from_static(
    "x-request-id, x-slo-tier, x-slo-bound-ms, x-slo-confidence, retry-after, retry-after-ms, \
     x-should-retry",
);
/// A browser's list of headers is echoed up to this many bytes.
const ECHO_BYTES_MAX: usize = 4 << 10;
const DAY_SECS: HeaderValue = HeaderValue::from_static("86400");

/// Marks a response as readable from any page.
pub(crate) fn allow(headers: &mut HeaderMap) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
}

/// Answers a browser that asks before it sends.
pub(crate) fn preflight(request: &HeaderMap) -> HttpResponse {
    let wanted = request
        .get(header::ACCESS_CONTROL_REQUEST_HEADERS)
        .filter(|wanted| wanted.len() <= ECHO_BYTES_MAX)
        .cloned();
    HttpResponse::NoContent()
        .insert_header((header::ACCESS_CONTROL_ALLOW_METHODS, METHODS))
        .insert_header((header::ACCESS_CONTROL_ALLOW_HEADERS, wanted.unwrap_or(REQUEST_HEADERS)))
        .insert_header((header::ACCESS_CONTROL_MAX_AGE, DAY_SECS))
        .insert_header((header::VARY, "access-control-request-headers"))
        .finish()
}
