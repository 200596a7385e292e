//! Where the server is.

use std::{fmt, str::FromStr};

use hyper::Uri;

/// An OpenAI-compatible server: `http://host:8000`, with or without `/v1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) tls: bool,
    /// What comes before `/chat/completions`.
    base: String,
}

/// Which of the two ways to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Api {
    /// `/v1/chat/completions`
    Chat,
    /// `/v1/completions`
    Completions,
}

impl Api {
    pub(crate) const fn path(self) -> &'static str {
        match self {
            Self::Chat => "/chat/completions",
            Self::Completions => "/completions",
        }
    }
}

impl Target {
    /// The path of an API's `rest`, such as `/models`.
    pub(crate) fn path(&self, rest: &str) -> String {
        format!("{}{rest}", self.base)
    }

    /// A path that is not the API's, such as `/ready`.
    pub(crate) fn beside(&self, path: &str) -> String {
        format!("{}{path}", self.base.strip_suffix("/v1").unwrap_or(&self.base))
    }

    /// For the `host` header.
    pub(crate) fn authority(&self) -> String {
        let host = &self.host;
        let default = if self.tls { 443 } else { 80 };
        let bracketed = host.contains(':');
        let host = if bracketed { format!("[{host}]") } else { host.clone() };
        if self.port == default { host } else { format!("{host}:{}", self.port) }
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let uri: Uri = text.parse().map_err(|error| format!("not a URL: {error}"))?;
        let tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            Some(_) | None => return Err("a URL begins with http:// or https://".into()),
        };
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err("a URL with a password would be written into every file".into());
        }
        // The parser leaves fragments out.
        if uri.query().is_some() || text.contains('#') {
            return Err("a base URL has no query and no fragment".into());
        }
        let host = uri.host().filter(|host| !host.is_empty()).ok_or("the URL has no host")?;
        let port = port(&uri, host)?.unwrap_or(if tls { 443 } else { 80 });
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let path = uri.path().trim_end_matches('/');
        let base = if path.is_empty() { "/v1".into() } else { path.to_owned() };
        Ok(Self { host, port, tls, base })
    }
}

/// What follows `host`. The parser takes a port that is none for no port at all, and another server would
/// be measured.
fn port(uri: &Uri, host: &str) -> Result<Option<u16>, String> {
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    let Some(text) = authority.strip_prefix(host).and_then(|rest| rest.strip_prefix(':')) else {
        return Ok(None);
    };
    let port = text.parse().ok().filter(|port| *port > 0);
    port.map(Some).ok_or_else(|| format!("`{text}` is no port: from 1 to {}", u16::MAX))
}

impl fmt::Display for Target {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "https" } else { "http" };
        write!(out, "{scheme}://{}{}", self.authority(), self.base)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_write() {
        let check = |text: &str, shown: &str| {
            assert_eq!(text.parse::<Target>().map(|target| target.to_string()), Ok(shown.into()));
        };
        check("http://127.0.0.1:8000", "http://127.0.0.1:8000/v1");
        check("http://localhost:8000/v1/", "http://localhost:8000/v1");
        check("https://api.example.com/openai/v1", "https://api.example.com/openai/v1");
        check("http://[::1]:8000", "http://[::1]:8000/v1");
        let target: Target = "http://localhost:80/v1".parse().unwrap();
        assert_eq!(target.path("/models"), "/v1/models");
        assert_eq!(target.beside("/ready"), "/ready");
        assert_eq!(target.authority(), "localhost");
    }

    #[test]
    fn what_is_no_server() {
        let no_urls = ["", "localhost:8000", "ftp://x", "http://", "http://u:p@x", "http://x/?a=1"];
        let no_ports = ["http://x:99999", "http://x:0", "http://x:", "http://[::1]:70000"];
        for bad in no_urls.into_iter().chain(no_ports).chain(["http://x/#a", "http://[::1"]) {
            assert!(bad.parse::<Target>().is_err(), "{bad}");
        }
    }
}
