//! What the worker needs from a backend: a tokeniser now, an engine on the engine thread.

use std::{path::Path, sync::Arc};

use sched::{Engine, StepCost};
use text::Tokenizer;

use crate::{
    calibration::CostSource,
    provenance::Provenance,
    settings::{BackendKind, EngineSettings},
};

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
    /// Whether prefixes are kept apart from slots, so that who begins with one shares nothing.
    pub keeps: bool,
    /// The costs of its steps, where they are known without measuring, and how.
    pub cost: Option<(StepCost, CostSource)>,
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
    /// What its file was made of, if `engine-worker optimize` made it.
    pub derived: Option<Provenance>,
}

/// What takes long to load, and is the same whatever it is configured to.
#[derive(Clone)]
pub enum Opened {
    /// A model file.
    #[cfg(feature = "llama")]
    Llama(Arc<::llama::Model>),
    /// Nothing.
    Mock,
}

/// Opens what the settings name.
///
/// # Errors
/// One line that says what is wrong with the model file or the build.
pub fn open(settings: &EngineSettings) -> anyhow::Result<Opened> {
    match settings.backend {
        BackendKind::Mock => Ok(Opened::Mock),
        #[cfg(feature = "llama")]
        BackendKind::Llama => llama::open(settings).map(Opened::Llama),
        #[cfg(not(feature = "llama"))]
        BackendKind::Llama => anyhow::bail!("this build has no llama.cpp; use --backend mock"),
    }
}

impl Opened {
    /// A backend of the sizes and rules that the settings say.
    ///
    /// # Errors
    /// One line that says what is wrong with them.
    pub fn backend(&self, settings: &EngineSettings) -> anyhow::Result<Backend> {
        match self {
            #[cfg(feature = "llama")]
            Self::Llama(model) => Ok(llama::backend(model.clone(), settings)),
            Self::Mock => mock::backend(settings),
        }
    }

    /// Length of the model file and version of what runs it; nothing of the mock, whose steps cost what
    /// they are said to.
    #[must_use]
    pub fn measurable(&self) -> Option<(u64, &'static str)> {
        match self {
            #[cfg(feature = "llama")]
            Self::Llama(model) => Some((model.facts().file_bytes, llama::VERSION)),
            Self::Mock => None,
        }
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
