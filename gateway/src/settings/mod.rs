//! What can be configured.

use std::{net::SocketAddr, time::Duration};

use actix_web::http::StatusCode;
use service::{health::Probe, telemetry::Logs};

/// The body limit may be raised up to this, in bytes. It stays well below the largest gRPC message.
const BODY_BYTES_CEILING: usize = 32 << 20;
/// No time limit may be longer than this, in milliseconds: a day.
const MILLIS_CEILING: u64 = 86_400_000;

/// Settings of the gateway.
#[derive(Clone, Debug, clap::Args, serde::Serialize)]
pub struct Settings {
    /// Where HTTP is served.
    #[arg(long, default_value = "127.0.0.1:8000")]
    pub listen: SocketAddr,
    /// Addresses of the engines; the first that is ready serves.
    #[arg(long, value_delimiter = ',', default_value = "127.0.0.1:50051")]
    pub engine: Vec<String>,
    /// Address of the admission service.
    #[arg(long, default_value = "127.0.0.1:50052")]
    pub admission: String,
    /// HTTP threads; 0 is one a core.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=512))]
    pub workers: u16,
    /// The longest request body, in bytes.
    #[arg(long, default_value_t = 8 << 20)]
    pub body_bytes_max: usize,
    /// How long a request's head may take to arrive.
    #[arg(long, default_value_t = 5_000)]
    pub head_timeout_ms: u64,
    /// How long a request's body may take to arrive.
    #[arg(long, default_value_t = 10_000)]
    pub body_timeout_ms: u64,
    /// How long an idle connection is kept. Longer than the proxy in front keeps its own, or requests
    /// get lost in between.
    #[arg(long, default_value_t = 75_000)]
    pub keep_alive_ms: u64,
    /// A client that takes nothing for this long, although there is something to take, is cut off.
    #[arg(long, default_value_t = 30_000)]
    pub write_timeout_ms: u64,
    /// A comment goes out when an event stream was silent for this long; 0 is never.
    #[arg(long, default_value_t = 10_000)]
    pub sse_heartbeat_ms: u64,
    /// How long the engine may take to prepare a request, and again to accept it.
    #[arg(long, default_value_t = 10_000)]
    pub engine_timeout_ms: u64,
    /// How long a verdict may take on top of the request's own patience.
    #[arg(long, default_value_t = 2_000)]
    pub decide_timeout_ms: u64,
    /// What happens to requests while the admission service cannot be reached.
    #[arg(long, value_enum, default_value = "best-effort")]
    pub admission_fallback: Fallback,
    /// Requests that run at once without the admission service.
    #[arg(long, default_value_t = 4)]
    pub fallback_requests_max: u16,
    /// The time budget of a request that runs without the admission service and names none.
    #[arg(long, default_value_t = 60_000)]
    pub fallback_budget_ms: u64,
    /// The HTTP status of a refusal.
    #[arg(long, value_enum, default_value = "503")]
    pub overload_status: OverloadStatus,
    /// The cap on generated tokens for requests that name none.
    #[arg(long, default_value_t = 1_024, value_parser = clap::value_parser!(u32).range(1..))]
    pub max_tokens_default: u32,
    /// Choices that one request may ask for, all its prompts together.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=128))]
    pub choices_max: u32,
    /// How long, at least, the port still answers after a signal to stop, so that balancers see
    /// `/ready` turn.
    #[arg(long, default_value_t = 500)]
    pub drain_grace_ms: u64,
    /// How long running answers may take to finish after a signal to stop.
    #[arg(long, default_value_t = 10_000)]
    pub drain_timeout_ms: u64,
    #[command(flatten)]
    #[serde(flatten)]
    #[expect(missing_docs, reason = "a doc comment here would replace the text of --help")]
    pub logs: Logs,
}

/// What happens to requests while the admission service cannot be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fallback {
    /// A few run at once, without a promise.
    BestEffort,
    /// All are refused.
    Refuse,
}

/// The HTTP status of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
pub enum OverloadStatus {
    /// Service unavailable.
    #[value(name = "503")]
    #[serde(rename = "503")]
    Unavailable,
    /// Too many requests.
    #[value(name = "429")]
    #[serde(rename = "429")]
    TooMany,
    /// The status that some providers use for "overloaded".
    #[value(name = "529")]
    #[serde(rename = "529")]
    Overloaded,
}

impl OverloadStatus {
    pub(crate) fn status(self) -> StatusCode {
        match self {
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Self::TooMany => StatusCode::TOO_MANY_REQUESTS,
            Self::Overloaded => StatusCode::from_u16(529).expect("529 is within 100..=999"),
        }
    }
}

impl Settings {
    pub(crate) fn body_timeout(&self) -> Duration {
        Duration::from_millis(self.body_timeout_ms)
    }

    pub(crate) fn engine_timeout(&self) -> Duration {
        Duration::from_millis(self.engine_timeout_ms)
    }

    pub(crate) fn heartbeat(&self) -> Option<Duration> {
        (self.sse_heartbeat_ms > 0).then(|| Duration::from_millis(self.sse_heartbeat_ms))
    }
}

impl service::settings::Settings for Settings {
    const SECTION: &'static str = "gateway";
    const BINARY: &'static str = "gateway";
    const ABOUT: &'static str = "OpenAI-compatible HTTP in front of the engine.";

    fn probe(&self) -> Probe {
        Probe::Http { listen: self.listen, path: "/health" }
    }

    fn check(&self) -> Result<(), String> {
        if self.engine.is_empty() || self.engine.iter().any(|address| address.trim().is_empty()) {
            return Err("engine: at least one address, and none empty".into());
        }
        if self.body_bytes_max == 0 || self.body_bytes_max > BODY_BYTES_CEILING {
            return Err(format!("body_bytes_max: 1 to {BODY_BYTES_CEILING}"));
        }
        let limits = [
            ("head_timeout_ms", self.head_timeout_ms),
            ("body_timeout_ms", self.body_timeout_ms),
            ("keep_alive_ms", self.keep_alive_ms),
            ("write_timeout_ms", self.write_timeout_ms),
            ("engine_timeout_ms", self.engine_timeout_ms),
            ("decide_timeout_ms", self.decide_timeout_ms),
            ("fallback_budget_ms", self.fallback_budget_ms),
        ];
        if let Some((key, _)) = limits.iter().find(|(_, millis)| *millis == 0) {
            return Err(format!("{key}: at least 1"));
        }
        let spans = [
            ("sse_heartbeat_ms", self.sse_heartbeat_ms),
            ("drain_grace_ms", self.drain_grace_ms),
            ("drain_timeout_ms", self.drain_timeout_ms),
        ];
        match limits.iter().chain(&spans).find(|(_, millis)| *millis > MILLIS_CEILING) {
            Some((key, _)) => Err(format!("{key}: at most {MILLIS_CEILING}")),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, ffi::OsString};

    use super::*;
    use service::settings::{Request, read};

    fn try_read(args: &[&str]) -> Result<Settings, String> {
        let args = ["gateway"].iter().chain(args).map(OsString::from);
        match read::<Settings>(args, &BTreeMap::new()) {
            Ok(Request::Run(settings)) => Ok(settings),
            Ok(Request::Print(text)) => Err(text),
            Ok(Request::Healthcheck(probe)) => Err(format!("{probe:?}")),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn the_defaults_do() {
        let settings = try_read(&[]).expect("defaults");
        assert_eq!(settings.listen.to_string(), "127.0.0.1:8000");
        assert_eq!(settings.engine, ["127.0.0.1:50051"]);
        assert_eq!(settings.overload_status.status(), StatusCode::SERVICE_UNAVAILABLE);
    }

    #[test]
    fn bad_values_are_named() {
        for (args, wanted) in [
            (["--body-bytes-max", "33554433"], "body_bytes_max: 1 to 33554432"),
            (["--body-timeout-ms", "0"], "body_timeout_ms: at least 1"),
            (["--drain-timeout-ms", "86400001"], "drain_timeout_ms: at most 86400000"),
            (["--engine", "a:1,,b:2"], "engine: at least one address"),
            (["--overload-status", "500"], "invalid value '500'"),
            (["--admission-fallback", "yes"], "invalid value 'yes'"),
            (["--max-tokens-default", "0"], "0 is not in 1.."),
            (["--choices-max", "129"], "129 is not in 1..=128"),
            (["--fallback-budget-ms", "0"], "fallback_budget_ms: at least 1"),
        ] {
            let error = try_read(&args).expect_err("a mistake");
            assert!(error.contains(wanted), "{error:?} does not say {wanted:?}");
        }
    }
}
