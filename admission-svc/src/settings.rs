//! Settings of the admission service.

use std::{net::SocketAddr, time::Duration};

use admit::{Deferral, Foresight, Limits, Policy, Twin};
use clap::{Args, ValueEnum};
use proto::v1::admission_server;
use serde::Serialize;
use service::{health::Probe, net::check_peer, telemetry::Logs};
use units::Span;

use crate::traces::{Caps, Keeper, MAX_BYTES_LEAST, Origin};

const ROUND_BYTES_MAX: usize = 64;

/// Settings of the admission service.
#[derive(Clone, Debug, Args, Serialize)]
pub struct Settings {
    /// Where gRPC callers connect.
    #[arg(long, default_value = "127.0.0.1:50052")]
    pub listen: SocketAddr,
    /// Engines to watch, separated by commas. Empty: decide for callers that pass a snapshot only.
    #[arg(long, default_value = "127.0.0.1:50051")]
    pub engine: String,
    /// Where Prometheus scrapes. Empty: nowhere.
    #[arg(long, default_value = "127.0.0.1:9052")]
    pub metrics_listen: String,
    /// Who gets in.
    #[arg(long, value_enum, default_value = "limit")]
    pub policy: PolicyName,
    /// `limit`: requests in one engine's system. 0: twice its slots.
    #[arg(long, default_value_t = 0)]
    pub limit_requests: u64,
    /// `limit`: prompt and capped answer tokens in one engine's system. 0: twice what its KV cache
    /// holds.
    #[arg(long, default_value_t = 0)]
    pub limit_tokens: u64,
    /// `limit`: KV blocks that one engine's system may come to hold. 0: all of them.
    #[arg(long, default_value_t = 0)]
    pub limit_kv_blocks: u64,
    /// `twin`, `twin-mc`, `full`: the share of promises that is to be kept, told as their confidence. 0: 0.98
    /// for `twin-mc`, 0.99 otherwise.
    #[arg(long, default_value_t = 0.0)]
    pub confidence: f64,
    /// `twin`: how much predictions are widened before promises were seen to end, a logarithm.
    #[arg(long, default_value_t = 0.12)]
    pub margin: f64,
    /// `twin-mc`, `full`: scenarios of answer lengths and step costs. A power of two.
    #[arg(long, default_value_t = 64)]
    pub scenarios: u32,
    /// `full`: held requests that are looked at whenever something changes, the cheapest first.
    #[arg(long, default_value_t = 12)]
    pub deferral_tries: u32,
    /// `full`: the probability to be in time from which on a request is let in without a promise.
    #[arg(long, default_value_t = 0.2)]
    pub best_effort_level: f64,
    /// `full`: best-effort requests that one promise may evict.
    #[arg(long, default_value_t = 4)]
    pub evictions_max: u32,
    /// `full`: the share of machine time that may be asked for before the dearest requests are refused. 0:
    /// nobody is too dear.
    #[arg(long, default_value_t = 1.0)]
    pub price: f64,
    /// `twin`, `twin-mc`, `full`: how long everything may be refused before one request is let in without a
    /// promise to see whether what is believed of the engine still holds, in milliseconds.
    #[arg(long, default_value_t = 2_000)]
    pub canary_ms: u64,
    /// `twin`, `twin-mc`, `full`: the part of each budget that is left for the way between engine and client,
    /// in milliseconds.
    #[arg(long, default_value_t = 5)]
    pub overhead_ms: u64,
    /// How long an admitted request has until its engine must have it, in milliseconds. What a caller that
    /// left in between has been given stays taken for as long.
    #[arg(long, default_value_t = 1_500)]
    pub lease_ms: u64,
    /// How long a request waits for room when it does not say, in milliseconds. 0: not at all.
    #[arg(long, default_value_t = 500)]
    pub patience_ms: u64,
    /// The end-to-end budget of a request that names none, in milliseconds.
    #[arg(long, default_value_t = 60_000)]
    pub budget_ms: u64,
    /// Requests that may wait for room at once.
    #[arg(long, default_value_t = 256)]
    pub held_max: usize,
    /// Requests of callers without a watched engine whose outcome may be open at once.
    #[arg(long, default_value_t = 10_000)]
    pub standalone_max: usize,
    /// The folder of the trace store: every closed decision becomes a row there. Empty: the latest rows
    /// stay in memory and are gone with the process.
    #[arg(long, default_value = "")]
    pub trace_dir: String,
    /// Bytes that the trace folder may hold; the oldest rows are removed, an eighth of it at a time.
    #[arg(long, default_value_t = 256 << 20)]
    pub trace_max_bytes: u64,
    /// Rows that the trace folder may hold; the oldest are removed, about an eighth at a time.
    #[arg(long, default_value_t = 2_000_000)]
    pub trace_max_rows: u64,
    /// How long a row may wait to be flushed, in milliseconds: what a kill can lose. 1,000 rows are flushed
    /// sooner.
    #[arg(long, default_value_t = 500)]
    pub trace_flush_ms: u64,
    /// The name of the collection round, kept with every row, so that rounds can be told apart.
    #[arg(long, default_value = "")]
    pub trace_round: String,
    /// Rows that are kept in memory when they do not go to disk.
    #[arg(long, default_value_t = 10_000)]
    pub trace_rows: usize,
    /// Logs.
    #[command(flatten)]
    #[serde(flatten)]
    pub logs: Logs,
}

/// Policies by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PolicyName {
    /// Everybody whom the engine's memory can hold.
    Off,
    /// The same, where the engine aborts whatever is past its deadline (`--lateness abort-all`).
    Abort,
    /// Bounds on requests, tokens and KV blocks in the system.
    Limit,
    /// A bound on requests that grows while they are in time and falls when they are late.
    Adaptive,
    /// Promises that rest on a simulation of the engine in which every answer goes to its cap.
    Twin,
    /// The same over many scenarios of how long answers are.
    TwinMc,
    /// The same with short deferral, best effort, evictions and a price.
    Full,
}

impl service::settings::Settings for Settings {
    const SECTION: &'static str = "admission";
    const BINARY: &'static str = "admission-svc";
    const ABOUT: &'static str = "Decides which requests an engine takes. \
         `admission-svc export` and `admission-svc inspect` read what it has decided.";

    fn probe(&self) -> Probe {
        Probe::Grpc { listen: self.listen, service: admission_server::SERVICE_NAME }
    }

    fn check(&self) -> Result<(), String> {
        self.metrics_address()?;
        for engine in self.engines() {
            check_peer(&engine).map_err(|reason| format!("engine: {reason}"))?;
        }
        let bounded = |key, value: u64, least, most| {
            if (least..=most).contains(&value) {
                return Ok(());
            }
            Err(format!("{key}: {value} is not between {least} and {most}"))
        };
        if let Some(twin) = self.twin() {
            twin.validate().map_err(|name| format!("{name}: outside its range"))?;
        }
        bounded("canary_ms", self.canary_ms, 100, 3_600_000)?;
        bounded("overhead_ms", self.overhead_ms, 0, 10_000)?;
        bounded("lease_ms", self.lease_ms, 1, 60_000)?;
        bounded("patience_ms", self.patience_ms, 0, 60_000)?;
        bounded("budget_ms", self.budget_ms, 1, 3_600_000)?;
        bounded("held_max", self.held_max as u64, 0, 4_096)?;
        bounded("standalone_max", self.standalone_max as u64, 0, 1_000_000)?;
        bounded("trace_max_bytes", self.trace_max_bytes, MAX_BYTES_LEAST, 1 << 40)?;
        bounded("trace_max_rows", self.trace_max_rows, 8, 1_000_000_000)?;
        bounded("trace_flush_ms", self.trace_flush_ms, 1, 60_000)?;
        bounded("trace_rows", self.trace_rows as u64, 0, 1_000_000)?;
        if self.trace_round.len() > ROUND_BYTES_MAX {
            let length = self.trace_round.len();
            return Err(format!("trace_round: {length} bytes are more than {ROUND_BYTES_MAX}"));
        }
        Ok(())
    }
}

impl Settings {
    /// Addresses of the engines, in order.
    #[must_use]
    pub fn engines(&self) -> Vec<String> {
        let addresses = self.engine.split(',').map(str::trim);
        addresses.filter(|address| !address.is_empty()).map(Into::into).collect()
    }

    /// Where to serve metrics, if anywhere.
    ///
    /// # Errors
    /// The setting is not an address; the message names it.
    pub fn metrics_address(&self) -> Result<Option<SocketAddr>, String> {
        if self.metrics_listen.is_empty() {
            return Ok(None);
        }
        let address = self.metrics_listen.parse();
        let refused = |_| format!("metrics_listen: {:?} is not an address", self.metrics_listen);
        address.map(Some).map_err(refused)
    }

    /// The twin that is set, if one is.
    fn twin(&self) -> Option<Twin> {
        let preset = match self.policy {
            PolicyName::Off | PolicyName::Abort | PolicyName::Limit | PolicyName::Adaptive => {
                return None;
            }
            PolicyName::Twin => {
                Twin { foresight: Foresight::Caps { margin: self.margin }, ..Twin::CAPS }
            }
            PolicyName::TwinMc => Twin::SCENARIOS,
            PolicyName::Full => Twin {
                deferral: Some(Deferral { tries: self.deferral_tries }),
                best_effort_level: self.best_effort_level,
                evictions_max: self.evictions_max,
                price: (self.price != 0.0).then_some(self.price),
                ..Twin::FULL
            },
        };
        let foresight = match preset.foresight {
            Foresight::Caps { margin } => Foresight::Caps { margin },
            Foresight::Learnt { .. } => Foresight::Learnt { scenarios: self.scenarios },
        };
        Some(Twin {
            foresight,
            level: if self.confidence == 0.0 { preset.level } else { self.confidence },
            canary: Span::from_millis(self.canary_ms),
            overhead: Span::from_millis(self.overhead_ms),
            ..preset
        })
    }

    pub(crate) fn controller(&self) -> admit::Settings {
        let limits = Limits {
            requests: self.limit_requests,
            tokens: self.limit_tokens,
            blocks: self.limit_kv_blocks,
        };
        admit::Settings {
            policy: match self.policy {
                PolicyName::Off => Policy::Off,
                PolicyName::Abort => Policy::Abort,
                PolicyName::Limit => Policy::Limit(limits),
                PolicyName::Adaptive => Policy::Adaptive,
                PolicyName::Twin | PolicyName::TwinMc | PolicyName::Full => {
                    Policy::Twin(self.twin().expect("it is one of the three"))
                }
            },
            lease: Span::from_millis(self.lease_ms),
            patience: Span::from_millis(self.patience_ms),
            budget: Span::from_millis(self.budget_ms),
            held_max: self.held_max,
            standalone_max: self.standalone_max,
        }
    }

    /// How traces are kept by the run of this id.
    pub(crate) fn keeper(&self, run_id: String) -> Keeper {
        let origin = Origin {
            run_id,
            round: self.trace_round.clone(),
            policy: self.controller().policy.name(),
            parameters: self
                .parameters()
                .iter()
                .map(|(name, value)| format!("{name}={value}"))
                .collect::<Vec<_>>()
                .join(" "),
        };
        Keeper {
            dir: (!self.trace_dir.is_empty()).then(|| self.trace_dir.clone().into()),
            caps: Caps { bytes: self.trace_max_bytes, rows: self.trace_max_rows },
            ring_rows: self.trace_rows,
            flush_every: Duration::from_millis(self.trace_flush_ms),
            origin,
        }
    }

    /// By the names of the configuration, for callers that ask.
    pub(crate) fn parameters(&self) -> Vec<(&'static str, String)> {
        vec![
            ("limit_requests", self.limit_requests.to_string()),
            ("limit_tokens", self.limit_tokens.to_string()),
            ("limit_kv_blocks", self.limit_kv_blocks.to_string()),
            ("lease_ms", self.lease_ms.to_string()),
            ("patience_ms", self.patience_ms.to_string()),
            ("budget_ms", self.budget_ms.to_string()),
            ("held_max", self.held_max.to_string()),
            ("standalone_max", self.standalone_max.to_string()),
            ("confidence", self.twin().map_or(0.0, |twin| twin.level).to_string()),
            ("margin", self.margin.to_string()),
            ("scenarios", self.scenarios.to_string()),
            ("deferral_tries", self.deferral_tries.to_string()),
            ("best_effort_level", self.best_effort_level.to_string()),
            ("evictions_max", self.evictions_max.to_string()),
            ("price", self.price.to_string()),
            ("canary_ms", self.canary_ms.to_string()),
            ("overhead_ms", self.overhead_ms.to_string()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use service::settings::{Request, read};

    use super::*;

    fn given(args: &[&str]) -> Result<Settings, String> {
        let args = ["admission-svc"].iter().chain(args).map(Into::into);
        match read::<Settings>(args, &BTreeMap::new()) {
            Ok(Request::Run(settings)) => Ok(settings),
            Ok(Request::Print(text)) => Err(text),
            Ok(Request::Healthcheck(probe)) => Err(format!("{probe:?}")),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn engines_may_be_many_or_none() {
        let engines = |text| given(&["--engine", text]).map(|it| it.engines());
        assert_eq!(engines(""), Ok(vec![]));
        assert_eq!(engines("a:1, b:2,"), Ok(vec!["a:1".into(), "b:2".into()]));
    }

    #[test]
    fn bad_values_are_named() {
        for (args, named) in [
            (["--metrics-listen", "9052"], "metrics_listen: \"9052\" is not an address"),
            (["--engine", "a:1,b"], "engine: \"b\" has no port"),
            (["--engine", "https://a:1"], "engine: \"https://a:1\": only http:// is supported"),
            (["--lease-ms", "0"], "lease_ms: 0 is not between 1 and 60000"),
            (["--trace-max-bytes", "1"], "trace_max_bytes: 1 is not between 8388608 and"),
            (["--trace-flush-ms", "0"], "trace_flush_ms: 0 is not between 1 and 60000"),
            (["--held-max", "5000"], "held_max: 5000 is not between 0 and 4096"),
            (["--policy", "oracle"], "invalid value 'oracle' for '--policy <POLICY>'"),
            (["--canary-ms", "1"], "canary_ms: 1 is not between 100 and 3600000"),
        ] {
            let error = given(&args).expect_err("a mistake");
            assert!(error.contains(named), "{error}");
        }
    }

    #[test]
    fn twins_are_presets_that_settings_change() {
        let policy = |args: &[&str]| given(args).map(|it| it.controller().policy);
        let twin = |args: &[&str]| match policy(args) {
            Ok(Policy::Twin(twin)) => twin,
            other => panic!("{other:?}"),
        };
        assert_eq!(twin(&["--policy", "twin"]), Twin::CAPS);
        assert_eq!(twin(&["--policy", "twin-mc"]), Twin::SCENARIOS);
        assert_eq!(twin(&["--policy", "full"]), Twin::FULL);
        let changed = twin(&["--policy", "full", "--price", "0", "--confidence", "0.95"]);
        assert_eq!((changed.price, changed.level), (None, 0.95));
        let error = policy(&["--policy", "full", "--scenarios", "60"]).expect_err("no power of 2");
        assert!(error.contains("foresight: outside its range"), "{error}");
    }

    #[test]
    fn printed_settings_name_every_key() {
        let text = given(&["--print-config"]).expect_err("printed");
        assert!(text.starts_with("[admission]\nlisten = \"127.0.0.1:50052\"\n"), "{text}");
        assert!(text.contains("policy = \"limit\"") && text.contains("log = \"info\""), "{text}");
    }
}
