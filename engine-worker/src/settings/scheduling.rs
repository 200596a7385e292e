//! How requests are scheduled, and where their KV lives: every rung of the ladder is a set of these.

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

/// Who runs together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SchedulerKind {
    /// One request at a time, in the order of arrival.
    Fifo,
    /// Batches that nobody joins once they run.
    Static,
    /// Requests join and leave between any two steps.
    Continuous,
}

/// Who comes first when a step cannot hold both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum OrderKind {
    /// Answers that run: short gaps between tokens.
    DecodeFirst,
    /// Prompts: first tokens soon.
    PrefillFirst,
}

/// How many KV blocks a request gets at the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReservationKind {
    /// All that it can ever need.
    Full,
    /// Best effort gets what its prompt needs and grows; when nothing is left, somebody is preempted.
    Grow,
}

/// What happens to a running request whose budget has run out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LatenessKind {
    /// It goes on; a promise loses its protection.
    Finish,
    /// Best effort ends; a promise loses its protection and goes on.
    AbortBestEffort,
    /// It ends.
    AbortAll,
}

/// Who keeps the books of KV blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum KvCoreKind {
    /// Blocks that are shared by reference count, and a radix tree of prefixes.
    Paged,
    /// The same by plain lists: the reference that `paged` is tested against.
    Naive,
    /// One run of consecutive blocks for each request, no prefix cache.
    Contiguous,
}

/// Where sequences live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LayoutKind {
    /// Each in a stream of its own; prefixes are kept in host memory.
    Streams,
    /// All in one pool, in which prefixes are shared.
    Unified,
}

/// Where sequences are to live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LayoutChoice {
    /// Where a calibration found them to be fastest, or else in streams.
    Auto,
    /// Each in a stream of its own; prefixes are kept in host memory. The fastest on a CPU.
    Streams,
    /// All in one pool, in which prefixes are shared.
    Unified,
}

/// Whether prefixes are kept for others to reuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PrefixCacheKind {
    /// Where the KV core and the model allow it.
    Auto,
    /// Never.
    Off,
}

/// A reader of a stream takes a quarter of a second for fluent. What is left of it is for steps that take
/// longer than they were predicted to, and for the way to the reader.
const ITL_MS: u64 = 200;

/// Settings of the scheduler and the KV core.
#[derive(Clone, Debug, Args, Serialize)]
pub struct SchedulingSettings {
    /// Who runs together.
    #[arg(long, value_enum, default_value = "continuous")]
    pub scheduler: SchedulerKind,
    /// Static batches: requests in one.
    #[arg(long, default_value_t = 8)]
    pub static_batch: u32,
    /// Static batches: how long the first request waits for the others.
    #[arg(long, default_value_t = 50)]
    pub static_wait_ms: u64,
    /// Who comes first when a step cannot hold both.
    #[arg(long, value_enum, default_value = "decode-first")]
    pub order: OrderKind,
    /// Longest gap between two tokens of an answer that prompts beside it are planned to keep; a smallest
    /// chunk of them goes on every few steps in any case. 0: as long as a step.
    #[arg(long, default_value_t = ITL_MS)]
    pub itl_ms: u64,
    /// How many KV blocks a request gets at the start.
    #[arg(long, value_enum, default_value = "full")]
    pub reservation: ReservationKind,
    /// Tokens of answer that every request reserves, whatever its own cap. 0: its own cap.
    #[arg(long, default_value_t = 0)]
    pub output_cap: u32,
    /// What happens to a running request whose budget has run out.
    #[arg(long, value_enum, default_value = "finish")]
    pub lateness: LatenessKind,

    /// Who keeps the books of KV blocks.
    #[arg(long, value_enum, default_value = "paged")]
    pub kv_core: KvCoreKind,
    /// Where sequences live.
    #[arg(long, value_enum, default_value = "auto")]
    pub layout: LayoutChoice,
    /// KV blocks of 16 tokens altogether. 0: as many as all slots can use, or the KV memory holds.
    #[arg(long, default_value_t = 0)]
    pub kv_blocks: u32,
    /// Whether prefixes are kept for others to reuse.
    #[arg(long, value_enum, default_value = "auto")]
    pub prefix_cache: PrefixCacheKind,
    /// Layout `streams`: memory that kept prefixes may take, in MiB.
    #[arg(long, default_value_t = 512)]
    pub prefix_mib: u64,
}

impl LayoutKind {
    /// As settings and the wire call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Streams => "streams",
            Self::Unified => "unified",
        }
    }
}

impl From<LayoutKind> for LayoutChoice {
    fn from(layout: LayoutKind) -> Self {
        match layout {
            LayoutKind::Streams => Self::Streams,
            LayoutKind::Unified => Self::Unified,
        }
    }
}

impl SchedulingSettings {
    /// Where sequences live: in streams where nothing else was set or found.
    #[must_use]
    pub fn layout(&self) -> LayoutKind {
        match self.layout {
            LayoutChoice::Auto | LayoutChoice::Streams => LayoutKind::Streams,
            LayoutChoice::Unified => LayoutKind::Unified,
        }
    }

    /// Checks the ranges.
    pub(super) fn check(&self) -> Result<(), String> {
        let ranges = [
            ("static_batch", u64::from(self.static_batch), 1, 256),
            ("static_wait_ms", self.static_wait_ms, 0, 60_000),
            ("itl_ms", self.itl_ms, 0, 60_000),
            ("output_cap", self.output_cap.into(), 0, 1 << 22),
            ("kv_blocks", self.kv_blocks.into(), 0, 1 << 24),
            ("prefix_mib", self.prefix_mib, 0, 1 << 24),
        ];
        match ranges.iter().find(|(_, it, least, most)| !(*least..=*most).contains(it)) {
            Some((key, _, least, most)) => Err(format!("{key}: from {least} to {most}")),
            None => Ok(()),
        }
    }
}
