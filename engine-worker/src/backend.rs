//! What the worker needs from a backend: a tokeniser now, an engine on the engine thread.

use std::{path::Path, sync::Arc};

use sched::{Engine, StepCost};
use text::Tokenizer;

use crate::settings::{BackendKind, EngineSettings};

#[cfg(feature = "llama")]
mod llama;
mod mock;
mod sizes;

pub use sizes::Sizes;

/// A loaded backend.
pub struct Backend {
    /// `llama` or `mock`.
    pub name: &'static str,
    /// Turns text into tokens and back.
    pub tokenizer: Arc<dyn Tokenizer>,
    /// What the engine is sized to.
    pub sizes: Sizes,
    /// What is known of the model.
    pub model: ModelFacts,
    /// Prefixes that can be kept at once; 0 where none can be.
    pub owners: u32,
    /// What a token of a kept prefix takes in host memory.
    pub token_bytes: u64,
    /// The costs of its steps, where they are known without measuring.
    pub cost: Option<StepCost>,
    /// Makes the engine, and lends it to the step loop. Called once, on the engine thread: a context
    /// borrows its model and cannot leave the thread that made it.
    pub with_engine: WithEngine,
}

/// Makes an engine and calls the function with it.
///
/// # Errors
/// The engine cannot be made; the function was not called.
pub type WithEngine = Box<dyn FnOnce(&mut dyn FnMut(&mut dyn Engine)) -> anyhow::Result<()> + Send>;

/// What is known of the model.
#[derive(Clone, Debug)]
pub struct ModelFacts {
    /// The name it is served under.
    pub id: String,
    /// Such as `llama`.
    pub architecture: String,
    /// Of its file; 0 for the mock.
    pub file_bytes: u64,
    /// Tokens of context that it was trained on.
    pub context_train: u32,
}

/// Loads the backend that the settings name.
///
/// # Errors
/// One line that says what is wrong with the model file, the sizes or the build.
pub fn load(settings: &EngineSettings) -> anyhow::Result<Backend> {
    match settings.backend {
        BackendKind::Mock => Ok(mock::load(settings)),
        #[cfg(feature = "llama")]
        BackendKind::Llama => llama::load(settings),
        #[cfg(not(feature = "llama"))]
        BackendKind::Llama => anyhow::bail!("this build has no llama.cpp; use --backend mock"),
    }
}

/// The name clients call the model by.
fn model_id(settings: &EngineSettings, path: Option<&Path>) -> String {
    if !settings.model_id.is_empty() {
        return settings.model_id.clone();
    }
    path.and_then(Path::file_stem)
        .map_or_else(|| "mock".into(), |stem| stem.to_string_lossy().into_owned())
}
