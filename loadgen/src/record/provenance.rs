//! How a run came about: in every file, so that a number can be traced to its making.

use serde::{Deserialize, Serialize};

use super::{Cell, Machine};

/// Everything but the rows. Never a key: secrets are not written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Provenance {
    /// Of this program.
    pub(crate) version: String,
    /// The command line, without secrets.
    pub(crate) command: Vec<String>,
    pub(crate) url: String,
    pub(crate) api: String,
    pub(crate) model: String,
    /// In words: which arrivals, which workload.
    pub(crate) arrivals: String,
    pub(crate) workload: String,
    /// Requests a second, as asked; absent for a replay.
    pub(crate) rate: Option<f64>,
    pub(crate) seed: u64,
    /// How long requests arrive, and how much of it is not counted.
    pub(crate) duration_us: u64,
    pub(crate) warmup_us: u64,
    pub(crate) timeout_us: u64,
    /// How long after the last arrival answers were waited for; absent where that had no end of its own.
    #[serde(default)]
    pub(crate) drain_us: Option<u64>,
    /// Targets, as they are written on the command line; empty for none.
    pub(crate) slo: String,
    pub(crate) retries: String,
    /// Requests that were scheduled.
    pub(crate) scheduled: u64,
    /// Distance and p-value of the test of the scheduled gaps against the exponential distribution.
    pub(crate) ks: Option<(f64, f64)>,
    pub(crate) started_unix_us: u64,
    pub(crate) machine: Machine,
    /// Which cell of which ladder it is; absent for a run of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cell: Option<Box<Cell>>,
    /// What is only known at the end; absent in the journal of a run that was killed.
    pub(crate) end: Option<End>,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct End {
    /// Whether all that was scheduled was sent and ended.
    pub(crate) complete: bool,
    /// How long it took in all.
    pub(crate) wall_us: u64,
    pub(crate) worst: Worst,
}

/// How well the generator did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Worst {
    /// The worst lateness of a timer on the threads that receive.
    pub(crate) lag_us: u64,
}
