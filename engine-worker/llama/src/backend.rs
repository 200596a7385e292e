//! The process-wide state of llama.cpp.

use std::sync::LazyLock;

use llama_cpp_2::{LogOptions, llama_backend::LlamaBackend, send_logs_to_tracing};

/// Initialised on first use, and never torn down: models may live to the end of the process.
static BACKEND: LazyLock<LlamaBackend> = LazyLock::new(|| {
    // First, because initialising already logs.
    send_logs_to_tracing(LogOptions::default());
    LlamaBackend::init().expect("nothing else in the process initialises it")
});

/// llama.cpp, initialised, with its logs sent to `tracing` under the target `llama-cpp-2`.
pub(crate) fn get() -> &'static LlamaBackend {
    &BACKEND
}
