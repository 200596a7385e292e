//! How a request can end: a closed list, so that nothing passes for a success that was none.

use std::{error::Error, fmt, io};

use serde::{Deserialize, Serialize};

/// Bytes of a failure's text that are kept.
const DETAIL_MAX: usize = 200;

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Class {
    /// A whole answer.
    Ok,
    /// Refused for load: 429, 503 or 529.
    Shed,
    /// No connection.
    Connect,
    /// A connection, but no TLS on it.
    Tls,
    /// Another status than 200.
    HttpStatus,
    /// 3xx: it is not followed, or another server would be measured.
    Redirect,
    /// 200 with something other than an event stream.
    NotSse,
    /// The stream or the connection ended early.
    Truncated,
    /// An error after 200.
    InBandError,
    /// It took longer than the run waits.
    Timeout,
    /// Not HTTP, or a stream that makes no sense.
    Protocol,
    /// Token counts that cannot be.
    BadUsage,
    /// This machine ran out of files, ports or memory: the server is not to blame, and the run is invalid.
    ClientLimit,
    /// The run was stopped while it was under way.
    Interrupted,
}

impl Class {
    /// All of them, in the order of reports.
    pub(crate) const ALL: [Self; 14] = [
        Self::Ok,
        Self::Shed,
        Self::Connect,
        Self::Tls,
        Self::HttpStatus,
        Self::Redirect,
        Self::NotSse,
        Self::Truncated,
        Self::InBandError,
        Self::Timeout,
        Self::Protocol,
        Self::BadUsage,
        Self::ClientLimit,
        Self::Interrupted,
    ];

    /// Its name in files.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Shed => "shed",
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::HttpStatus => "http_status",
            Self::Redirect => "redirect",
            Self::NotSse => "not_sse",
            Self::Truncated => "truncated",
            Self::InBandError => "in_band_error",
            Self::Timeout => "timeout",
            Self::Protocol => "protocol",
            Self::BadUsage => "bad_usage",
            Self::ClientLimit => "client_limit",
            Self::Interrupted => "interrupted",
        }
    }

    /// The class of that name.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.name() == name)
    }

    /// The class of a status that is not 200.
    pub(crate) const fn of_status(status: u16) -> Self {
        match status {
            429 | 503 | 529 => Self::Shed,
            300..=399 => Self::Redirect,
            _ => Self::HttpStatus,
        }
    }
}

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) struct Failure {
    pub(crate) class: Class,
    /// For people, short.
    pub(crate) detail: String,
}

impl Failure {
    pub(crate) fn new(class: Class, detail: impl Into<String>) -> Self {
        let mut detail = detail.into().replace(['\r', '\n'], " ");
        if detail.len() > DETAIL_MAX {
            let end = (0..=DETAIL_MAX).rfind(|end| detail.is_char_boundary(*end));
            detail.truncate(end.unwrap_or(0));
        }
        Self { class, detail }
    }

    /// `error` as a failure of `class`, unless this machine is the reason.
    pub(crate) fn of(class: Class, error: &(dyn Error + 'static)) -> Self {
        let class = if is_ours(error) { Class::ClientLimit } else { class };
        Self::new(class, chain(error))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.class.name(), self.detail)
    }
}

/// An error and why, each reason once.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(why) = source {
        let why_text = why.to_string();
        if !text.ends_with(&why_text) {
            text = format!("{text}: {why_text}");
        }
        source = why.source();
    }
    text
}

/// Whether the reason is a limit of this machine.
fn is_ours(error: &(dyn Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        let code = error.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error);
        let ours = [nix::libc::EMFILE, nix::libc::ENFILE, nix::libc::EADDRNOTAVAIL]
            .into_iter()
            .chain([nix::libc::ENOBUFS, nix::libc::ENOMEM]);
        if code.is_some_and(|code| ours.into_iter().any(|limit| limit == code)) {
            return true;
        }
        next = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for class in Class::ALL {
            assert_eq!(Class::from_name(class.name()), Some(class));
            let json = serde_json::to_string(&class).unwrap();
            assert_eq!(json, format!("\"{}\"", class.name()));
        }
    }

    #[test]
    fn this_machines_limits_are_not_the_servers_fault() {
        let class = |code| {
            let error = io::Error::from_raw_os_error(code);
            Failure::of(Class::Connect, &error).class
        };
        assert_eq!(class(nix::libc::EMFILE), Class::ClientLimit);
        assert_eq!(class(nix::libc::ECONNREFUSED), Class::Connect);
    }

    #[test]
    fn details_are_short_and_one_line() {
        let failure = Failure::new(Class::Protocol, "é\n".repeat(300));
        assert!(failure.detail.len() <= DETAIL_MAX && !failure.detail.contains('\n'));
    }
}
