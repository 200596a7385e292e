//! What can be configured.

mod http;
mod keys;

use std::{net::SocketAddr, time::Duration};

use actix_web::http::StatusCode;
use service::{health::Probe, net::check_peer, telemetry::Logs};

pub use http::HttpSettings;
pub use keys::KeySettings;

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
    pub http: HttpSettings,
    #[command(flatten)]
    #[serde(flatten)]
    #[expect(missing_docs, reason = "a doc comment here would replace the text of --help")]
    pub keys: KeySettings,
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
        if self.engine.is_empty() {
            return Err("engine: at least one address".into());
        }
        for address in &self.engine {
            check_peer(address).map_err(|reason| format!("engine: {reason}"))?;
        }
        check_peer(&self.admission).map_err(|reason| format!("admission: {reason}"))?;
        self.http.check()?;
        self.keys.check()?;
        between("engine_timeout_ms", self.engine_timeout_ms, 1)?;
        between("decide_timeout_ms", self.decide_timeout_ms, 1)?;
        between("fallback_budget_ms", self.fallback_budget_ms, 1)?;
        between("sse_heartbeat_ms", self.sse_heartbeat_ms, 0)?;
        between("drain_grace_ms", self.drain_grace_ms, 0)?;
        between("drain_timeout_ms", self.drain_timeout_ms, 0)
    }
}

/// Checks a time limit.
fn between(key: &str, millis: u64, least: u64) -> Result<(), String> {
    if millis < least {
        return Err(format!("{key}: at least {least}"));
    }
    if millis > MILLIS_CEILING {
        return Err(format!("{key}: at most {MILLIS_CEILING}"));
    }
    Ok(())
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
            (["--bodies-bytes-max", "1000"], "bodies_bytes_max: at least body_bytes_max, 8388608"),
            (["--body-timeout-ms", "0"], "body_timeout_ms: at least 1"),
            (["--drain-timeout-ms", "86400001"], "drain_timeout_ms: at most 86400000"),
            (["--head-bytes-max", "100"], "head_bytes_max: 1024 to 98304"),
            (["--connections-max", "0"], "0 is not in 1.."),
            (["--cors-origins", "example.com"], "cors_origins: \"example.com\" is not an origin"),
            (["--key-concurrent-max", "1"], "key_concurrent_max: there are no api_keys"),
            (["--engine", "a:1,,b:2"], "engine: \"\" is not host:port"),
            (["--engine", "a"], "engine: \"a\" has no port"),
            (["--engine", "a:65536"], "engine: \"a:65536\": the port must be 1 to 65535"),
            (["--engine", "https://a:1"], "engine: \"https://a:1\": only http:// is supported"),
            (["--admission", ""], "admission: \"\" is not host:port"),
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

    #[test]
    fn keys_are_neither_printed_nor_shown() {
        let args = ["--api-keys", "sk-a rpm=5,sk-b", "--print-config"];
        let text = try_read(&args).expect_err("printed");
        assert!(text.contains("listen = ") && !text.contains("sk-"), "{text}");
        let settings = try_read(&args[..2]).expect("settings");
        assert!(!format!("{settings:?}").contains("sk-"));
        let vars = BTreeMap::from([("CADENCE_GATEWAY_API_KEYS".into(), "sk-a".into())]);
        let args = ["gateway", "--help"].map(OsString::from);
        let help = read::<Settings>(args, &vars).expect_err("a text").to_string();
        assert!(help.contains("--api-keys") && !help.contains("sk-a"), "{help}");
    }
}
