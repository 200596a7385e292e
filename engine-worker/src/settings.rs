//! The engine worker's settings.

use std::{net::SocketAddr, path::PathBuf};

use clap::Args;
use proto::v1::engine_server;
use serde::Serialize;
use service::{health::Probe, settings::Settings, telemetry::Logs};

mod choice;
mod scheduling;

pub use scheduling::{
    KvCoreKind, LatenessKind, LayoutChoice, LayoutKind, OrderKind, PrefixCacheKind,
    ReservationKind, SchedulerKind, SchedulingSettings,
};

/// Which engine runs the steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum BackendKind {
    /// A GGUF model through llama.cpp.
    Llama,
    /// A cost model that sleeps and answers nonsense.
    Mock,
}

/// Settings of the engine worker. 0 means "choose" where it says so.
#[derive(Clone, Debug, Args, Serialize)]
pub struct EngineSettings {
    /// Where gRPC is served.
    #[arg(long, default_value = "127.0.0.1:50051")]
    pub listen: SocketAddr,
    /// Where Prometheus may scrape; an empty value is off.
    #[arg(long, default_value = "127.0.0.1:9051")]
    pub metrics_listen: String,
    /// What runs the steps.
    #[arg(long, value_enum, default_value = "llama")]
    pub backend: BackendKind,
    /// The GGUF file.
    #[arg(long)]
    pub model: Option<PathBuf>,
    /// The name that clients call the model by; empty: the file's name without its ending.
    #[arg(long, default_value = "")]
    pub model_id: String,
    /// Layers on a GPU, for builds that have one.
    #[arg(long, default_value_t = 999)]
    pub gpu_layers: u32,
    /// Threads of llama.cpp. 0: as many as a calibration found best, or else as this process may use
    /// processors.
    #[arg(long, default_value_t = 0)]
    pub threads: u32,
    /// Where `engine-worker calibrate` keeps what it measured; by default beside the model.
    #[arg(long, value_name = "DIR")]
    pub calibration_dir: Option<PathBuf>,

    /// Sequences that run at once. 0: up to 16, as memory allows.
    #[arg(long, default_value_t = 0)]
    pub slots: u32,
    /// Tokens that prompt and answer of a request have together. 0: up to 4096, as the model and
    /// memory allow.
    #[arg(long, default_value_t = 0)]
    pub context_tokens: u32,
    /// What the KV cache may take, in MiB, where slots and context are chosen.
    #[arg(long, default_value_t = 2048)]
    pub kv_mib: u64,
    /// Rows of one backend batch. 0: as many as a calibration found best, or else 512.
    #[arg(long, default_value_t = 0)]
    pub batch_tokens: u32,
    /// Prompt tokens in one step. 0: as many as a calibration found best, or else 512.
    #[arg(long, default_value_t = 0)]
    pub prefill_tokens: u32,
    /// No step is planned whose predicted time is above this.
    #[arg(long, default_value_t = 500)]
    pub step_ms: u64,
    /// Requests that may wait for a slot.
    #[arg(long, default_value_t = 256)]
    pub waiting_max: u32,
    /// Requests in the system that admission has not let in. 0: as many as there are slots.
    #[arg(long, default_value_t = 0)]
    pub unleased_max: u32,

    /// Scheduler and KV core.
    #[command(flatten)]
    #[serde(flatten)]
    pub scheduling: SchedulingSettings,

    /// How long a prepared request is kept for its `Generate`.
    #[arg(long, default_value_t = 10_000)]
    pub prepared_ms: u64,
    /// Prepared requests kept at once.
    #[arg(long, default_value_t = 1024)]
    pub prepared_max: usize,
    /// Memory of prepared requests, in MiB.
    #[arg(long, default_value_t = 64)]
    pub prepared_mib: usize,
    /// Requests being prepared or waiting for it.
    #[arg(long, default_value_t = 256)]
    pub preparing_max: usize,

    /// How long running requests may go on after SIGTERM.
    #[arg(long, default_value_t = 10_000)]
    pub drain_ms: u64,

    /// Where a flame graph (SVG) of what this process did from ready to stop is written when it stops.
    /// Needs no rights; the file takes its place at once.
    #[arg(long)]
    pub profile: Option<PathBuf>,
    /// The profile ends, and is written, after this many seconds. 0: when the process stops.
    #[arg(long, default_value_t = 0)]
    pub profile_seconds: u64,

    /// Mock: tokens of every answer; 0 goes on to the cap.
    #[arg(long, default_value_t = 0)]
    pub mock_answer_tokens: u32,
    /// Mock: microseconds of any step.
    #[arg(long, default_value_t = 4_000.0)]
    pub mock_base_us: f64,
    /// Mock: microseconds a decoding sequence adds.
    #[arg(long, default_value_t = 4_000.0)]
    pub mock_decode_us: f64,
    /// Mock: microseconds a prompt token adds.
    #[arg(long, default_value_t = 2_200.0)]
    pub mock_prefill_us: f64,
    /// Mock: microseconds an attended cell adds.
    #[arg(long, default_value_t = 0.0)]
    pub mock_cell_us: f64,
    /// Mock: a file of `engine-worker calibrate`; steps then cost what it says, and not the above.
    #[arg(long, value_name = "FILE")]
    pub cost_model: Option<PathBuf>,

    /// Logs.
    #[command(flatten)]
    #[serde(flatten)]
    pub logs: Logs,
}

/// More sequences than this are a mistake: llama.cpp has the same bound.
const SLOTS_MAX: u32 = 256;

impl Settings for EngineSettings {
    const SECTION: &'static str = "engine";
    const BINARY: &'static str = "engine-worker";
    const ABOUT: &'static str = "Runs a model: scheduler, KV core and llama.cpp in one process.";

    /// The engine's service appears with the loaded model.
    fn probe(&self) -> Probe {
        Probe::Grpc { listen: self.listen, service: engine_server::SERVICE_NAME }
    }

    fn check(&self) -> Result<(), String> {
        let bad = |key: &str, rule: &str| Err(format!("{key}: {rule}"));
        if self.backend == BackendKind::Llama && self.model.is_none() {
            return bad("model", "the llama backend needs a GGUF file");
        }
        if self.slots > SLOTS_MAX {
            return bad("slots", &format!("at most {SLOTS_MAX}"));
        }
        if self.cost_model.is_some() && self.backend == BackendKind::Llama {
            return bad("cost_model", "is for the mock; a model has its own, in calibration_dir");
        }
        if (1..self.slots).contains(&self.batch_tokens) || self.batch_tokens > 1 << 16 {
            return bad("batch_tokens", "at least slots and at most 65536");
        }
        if self.prefill_tokens > self.batch_tokens() {
            return bad("prefill_tokens", "at most batch_tokens, which is 512 when not set");
        }
        if self.context_tokens > 1 << 22 {
            return bad("context_tokens", "at most 4194304");
        }
        self.scheduling.check()?;
        if self.profile_seconds > 86_400 {
            return bad("profile_seconds", "from 0 to 86400");
        }
        if self.profile_seconds > 0 && self.profile.is_none() {
            return bad("profile_seconds", "changes nothing without profile");
        }
        let ranges = [
            ("step_ms", self.step_ms, 60_000),
            ("waiting_max", self.waiting_max.into(), 8_192),
            ("kv_mib", self.kv_mib, 1 << 24),
            ("prepared_max", self.prepared_max as u64, 1 << 20),
            ("prepared_mib", self.prepared_mib as u64, 1 << 20),
            ("preparing_max", self.preparing_max as u64, 1 << 16),
        ];
        if let Some((key, _, most)) = ranges.iter().find(|(_, it, most)| !(1..=*most).contains(it))
        {
            return bad(key, &format!("from 1 to {most}"));
        }
        let costs = [
            ("mock_base_us", self.mock_base_us),
            ("mock_decode_us", self.mock_decode_us),
            ("mock_prefill_us", self.mock_prefill_us),
            ("mock_cell_us", self.mock_cell_us),
        ];
        match costs.iter().find(|(_, cost)| !(0.0..=1e9).contains(cost)) {
            Some((key, _)) => bad(key, "from 0 to 1e9"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeMap;

    use service::settings::{Request, read};

    use super::*;

    fn read_args(args: &[&str]) -> Result<EngineSettings, String> {
        let args = ["engine-worker"].iter().chain(args).map(Into::into);
        match read::<EngineSettings>(args, &BTreeMap::new()) {
            Ok(Request::Run(settings)) => Ok(settings),
            Ok(Request::Print(text)) => Err(text),
            Ok(Request::Healthcheck(probe)) => Err(format!("{probe:?}")),
            Err(error) => Err(error.to_string()),
        }
    }

    /// The defaults, on the mock.
    pub(crate) fn mock_settings() -> EngineSettings {
        read_args(&["--backend", "mock"]).expect("the defaults hold")
    }

    #[test]
    fn what_does_not_go_together_is_named() {
        for (args, key) in [
            (&["--backend", "llama"][..], "model: "),
            (&["--backend", "mock", "--slots", "300"], "slots: "),
            (&["--backend", "mock", "--prefill-tokens", "513"], "prefill_tokens: "),
            (
                &["--backend", "mock", "--prefill-tokens", "65", "--batch-tokens", "64"],
                "prefill_tokens: ",
            ),
            (&["--backend", "mock", "--batch-tokens", "7", "--slots", "8"], "batch_tokens: "),
            (&["--model", "m", "--cost-model", "c"], "cost_model: is for the mock"),
            (&["--backend", "mock", "--mock-base-us", "NaN"], "mock_base_us: "),
            (&["--backend", "mock", "--kv-mib", "99999999999999"], "kv_mib: from 1 to"),
            (&["--backend", "mock", "--waiting-max", "0"], "waiting_max: from 1 to"),
            (&["--backend", "mock", "--mock-cell-us", "-1"], "unexpected argument"),
            (&["--backend", "mock", "--static-batch", "0"], "static_batch: from 1 to"),
            (&["--backend", "mock", "--itl-ms", "60001"], "itl_ms: from 0 to 60000"),
            (&["--backend", "mock", "--profile-seconds", "5"], "profile_seconds: changes nothing"),
            (&["--backend", "mock", "--profile-seconds", "86401"], "profile_seconds: from 0"),
            (&["--backend", "mock", "--layout", "paged"], "streams"),
        ] {
            let error = read_args(args).expect_err("a mistake");
            assert!(error.contains(key), "{error}");
        }
    }

    #[test]
    fn names_that_there_are_not_are_answered_with_those_that_there_are() {
        let vars = BTreeMap::from([("CADENCE_ENGINE_SCHEDULER".into(), "batch".into())]);
        let error = read::<EngineSettings>(["engine-worker".into()], &vars).expect_err("a mistake");
        let said = error.to_string();
        assert!(
            said.ends_with("'--scheduler <SCHEDULER>': one of fifo, static, continuous"),
            "{said}"
        );
    }
}
