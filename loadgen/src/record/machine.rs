//! Where a run was made.

use std::fs;

use serde::{Deserialize, Serialize};

/// The machine of the load generator, as far as it tells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) os: String,
    pub(crate) arch: String,
    pub(crate) cpus: usize,
    #[serde(default)]
    pub(crate) cpu_model: Option<String>,
}

impl Machine {
    /// This one.
    pub(crate) fn this() -> Self {
        let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = info.lines().find_map(|line| line.strip_prefix("model name"));
        Self {
            os: std::env::consts::OS.into(),
            arch: std::env::consts::ARCH.into(),
            cpus: std::thread::available_parallelism().map_or(1, Into::into),
            cpu_model: model.map(|model| model.trim_start_matches([' ', '\t', ':']).to_owned()),
        }
    }
}
