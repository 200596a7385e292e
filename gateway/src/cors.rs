//! Cross-origin rules: which pages a browser lets call, and read what we say about a request.

use actix_web::{
    HttpResponse,
    http::header::{self, HeaderMap, HeaderValue},
};

const ANY: &str = "*";
const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, POST, OPTIONS");
/// Allowed when the browser does not say what it wants to send.
const REQUEST_HEADERS: HeaderValue = HeaderValue::from_static(
    "authorization, content-type, api-key, x-api-key, openai-organization, openai-project, \
     x-request-id, x-slo-e2e-ms, x-slo-ttft-ms, x-slo-patience-ms, x-slo-mode, x-stainless-arch, \
     x-stainless-lang, x-stainless-os, x-stainless-package-version, x-stainless-retry-count, \
     x-stainless-runtime, x-stainless-runtime-version, x-stainless-timeout, \
     x-stainless-helper-method",
);
/// Ours, and the one in which the balancer names the gateway that answered.
const EXPOSED: HeaderValue = HeaderValue::from_static(
    "x-request-id, x-slo-tier, x-slo-bound-ms, x-slo-confidence, retry-after, retry-after-ms, \
     x-should-retry, x-cadence-gateway",
);
/// A browser's list of headers is echoed up to this many bytes.
const ECHO_BYTES_MAX: usize = 4 << 10;
const DAY_SECS: HeaderValue = HeaderValue::from_static("86400");

/// The pages that may call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cors {
    Any,
    /// These and no other, perhaps none.
    Origins(Vec<HeaderValue>),
}

impl Cors {
    /// From the setting: `*` or origins.
    ///
    /// # Errors
    /// One is not an origin; the line names it.
    pub(crate) fn parse(origins: &[String]) -> Result<Self, String> {
        let named = || origins.iter().map(|origin| origin.trim()).filter(|it| !it.is_empty());
        if named().any(|origin| origin == ANY) {
            return Ok(Self::Any);
        }
        let parse = |origin: &str| {
            let rest = origin.split_once("://").map(|(_, rest)| rest);
            let plain = rest.is_some_and(|rest| {
                !rest.is_empty() && !rest.contains(|char: char| char == '/' || char.is_whitespace())
            });
            let value = HeaderValue::from_str(origin).ok().filter(|_| plain);
            value.ok_or_else(|| {
                format!("cors_origins: {origin:?} is not an origin such as https://example.com")
            })
        };
        Ok(Self::Origins(named().map(parse).collect::<Result<_, _>>()?))
    }

    #[cfg(test)]
    pub(crate) fn any() -> Self {
        Self::Any
    }

    /// Marks the response to `request` as readable from where it may be read.
    pub(crate) fn allow(&self, request: Option<&HeaderValue>, response: &mut HeaderMap) {
        let origin = match self {
            Self::Any => Some(HeaderValue::from_static(ANY)),
            Self::Origins(origins) => {
                response.append(header::VARY, HeaderValue::from_static("origin"));
                origins.iter().find(|origin| Some(*origin) == request).cloned()
            }
        };
        if let Some(origin) = origin {
            response.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
            response.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
        }
    }

    /// The same where the request cannot be read: its origin is not known.
    pub(crate) fn allow_unasked(&self, response: &mut HeaderMap) {
        let only = match self {
            Self::Origins(origins) if origins.len() == 1 => origins.first(),
            Self::Any | Self::Origins(_) => None,
        };
        self.allow(only, response);
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(setting: &[&str], origin: &str) -> Option<String> {
        let setting: Vec<String> = setting.iter().map(ToString::to_string).collect();
        let cors = Cors::parse(&setting).expect("origins");
        let mut headers = HeaderMap::new();
        let origin = HeaderValue::from_str(origin).expect("a value");
        cors.allow(Some(&origin), &mut headers);
        let allowed = headers.get(header::ACCESS_CONTROL_ALLOW_ORIGIN)?;
        Some(allowed.to_str().expect("text").to_owned())
    }

    #[test]
    fn who_may_call_is_who_was_named() {
        assert_eq!(allowed(&["*"], "http://a").as_deref(), Some("*"));
        let two = ["http://a", "https://b:8443"];
        assert_eq!(allowed(&two, "https://b:8443").as_deref(), Some("https://b:8443"));
        assert_eq!(allowed(&two, "https://b"), None);
        assert_eq!(allowed(&[""], "http://a"), None);
    }

    #[test]
    fn what_is_no_origin_is_named() {
        for origin in ["example.com", "http://", "http://a/path", "http://a b", "http://a\u{1}"] {
            let error = Cors::parse(&[origin.to_string()]).expect_err("a mistake");
            assert!(error.starts_with("cors_origins: "), "{error}");
        }
    }
}
