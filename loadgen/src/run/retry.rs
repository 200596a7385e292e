//! When a client tries again: as OpenAI's libraries do by default.

use std::time::Duration;

use hyper::HeaderMap;
use units::Span;
use workload::{Draws, sdk_wait};

use super::options::Retries;
use crate::wire::{Class, Failure};

/// How long to wait before the next attempt; absent when there is none.
pub(super) fn wait(
    retries: Retries,
    attempt: u32,
    failure: &Failure,
    status: Option<u16>,
    headers: &HeaderMap,
    draws: &mut Draws,
) -> Option<Duration> {
    match retries {
        Retries::None => return None,
        Retries::Sdk => {}
    }
    if !should(failure.class, status, headers) {
        return None;
    }
    let wish = wish_ms(headers).map(|millis| Span::from_secs_f64(millis / 1_000.0));
    sdk_wait(attempt, wish, draws).map(Duration::from)
}

/// When the server wants to be asked again, in milliseconds.
pub(super) fn wish_ms(headers: &HeaderMap) -> Option<f64> {
    let number = |name| {
        let text = headers.get(name)?.to_str().ok()?;
        text.trim().parse::<f64>().ok().filter(|value| value.is_finite() && *value >= 0.0)
    };
    number("retry-after-ms").or_else(|| number("retry-after").map(|secs| secs * 1_000.0))
}

fn should(class: Class, status: Option<u16>, headers: &HeaderMap) -> bool {
    match headers.get("x-should-retry").map(hyper::header::HeaderValue::as_bytes) {
        Some(b"true") => return true,
        Some(b"false") => return false,
        Some(_) | None => {}
    }
    match class {
        Class::Connect | Class::Tls => true,
        // Lost before the head of an answer; afterwards no library tries again.
        Class::Truncated | Class::Protocol => status.is_none(),
        Class::Shed | Class::HttpStatus => {
            status.is_some_and(|status| matches!(status, 408 | 409 | 429) || status >= 500)
        }
        Class::Ok
        | Class::Redirect
        | Class::NotSse
        | Class::InBandError
        | Class::Timeout
        | Class::BadUsage
        | Class::ClientLimit
        | Class::Interrupted => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(attempt: u32, status: u16, headers: &[(&'static str, &'static str)]) -> Option<f64> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, value.parse().unwrap());
        }
        let failure = Failure::new(Class::of_status(status), "");
        let mut draws = Draws::new(0, 0);
        let wait = wait(Retries::Sdk, attempt, &failure, Some(status), &map, &mut draws);
        wait.map(|wait| wait.as_secs_f64())
    }

    #[test]
    fn waits_double_and_are_jittered_down() {
        for (attempt, longest) in [(1, 0.5), (2, 1.0)] {
            let wait = check(attempt, 503, &[]).expect("a second attempt");
            assert!(wait <= longest && wait >= 0.75 * longest, "{wait}");
        }
        assert_eq!(check(3, 503, &[]), None);
    }

    #[test]
    fn the_servers_wish_counts_in_bounds() {
        assert_eq!(check(1, 503, &[("retry-after", "7")]), Some(7.0));
        assert_eq!(check(1, 503, &[("retry-after", "7"), ("retry-after-ms", "250")]), Some(0.25));
        for odd in ["0", "61", "soon", "-1"] {
            assert!(check(1, 503, &[("retry-after", odd)]).expect("a wait") <= 0.5, "{odd}");
        }
    }

    #[test]
    fn what_no_wait_can_help_is_not_tried_again() {
        for status in [400, 401, 404, 413, 302] {
            assert_eq!(check(1, status, &[]), None, "{status}");
        }
        for status in [408, 409, 429, 500, 529] {
            assert!(check(1, status, &[]).is_some(), "{status}");
        }
        assert_eq!(check(1, 503, &[("x-should-retry", "false")]), None);
        assert!(check(1, 400, &[("x-should-retry", "true")]).is_some());
        let broken = Failure::new(Class::Truncated, "");
        let wait = |status| {
            let mut draws = Draws::new(0, 0);
            wait(Retries::Sdk, 1, &broken, status, &HeaderMap::new(), &mut draws)
        };
        assert!(wait(None).is_some() && wait(Some(200)).is_none());
    }
}
