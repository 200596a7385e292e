//! The model that is measured.

use std::{env, path::PathBuf, thread};

/// CADENCE_TEST_MODEL, or the one of `make model`.
pub(crate) fn path() -> PathBuf {
    let ours = "/../../.cache/models/SmolLM2-135M-Instruct.Q4_1.gguf";
    let ours = env!("CARGO_MANIFEST_DIR").to_owned() + ours;
    env::var_os("CADENCE_TEST_MODEL").map_or_else(|| ours.into(), PathBuf::from)
}

/// As many as the machine has processors.
pub(crate) fn threads() -> u32 {
    let count = thread::available_parallelism().map_or(1, |count| count.get());
    u32::try_from(count).expect("a machine has fewer processors")
}
