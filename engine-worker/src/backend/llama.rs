//! The llama.cpp backend.

use std::sync::Arc;

use anyhow::Context as _;
use llama::{LayoutKind as Layout, Model, Options};

use super::{Backend, ModelFacts, Sizes, model_id};
use crate::{
    scheduling,
    settings::{EngineSettings, LayoutKind, PrefixCacheKind},
};

pub(super) const VERSION: &str = llama::VERSION;

pub(super) fn open(settings: &EngineSettings) -> anyhow::Result<Arc<Model>> {
    let path = settings.model.as_deref().context("model: the llama backend needs a GGUF file")?;
    Ok(Arc::new(Model::open(path, settings.gpu_layers)?))
}

pub(super) fn backend(model: Arc<Model>, settings: &EngineSettings) -> Backend {
    let facts = model.facts().clone();
    let sizes = Sizes::choose(settings, facts.kv_bytes_per_token, facts.context_train);
    let owners = scheduling::owners(&settings.scheduling, sizes.slots, facts.reusable);
    if !facts.reusable && settings.scheduling.prefix_cache == PrefixCacheKind::Auto {
        tracing::warn!("the KV of this model cannot be cut and reused: there is no prefix cache");
    }
    let layout = settings.scheduling.layout();
    let options = Options {
        slots: sizes.slots,
        owners,
        layout: match layout {
            LayoutKind::Streams => Layout::Streams,
            LayoutKind::Unified => Layout::Unified { cells: sizes.kv_blocks.tokens().0 },
        },
        context_tokens: sizes.context_tokens,
        batch_tokens: settings.batch_tokens().max(sizes.slots),
        threads: settings.threads(),
    };
    tracing::info!(threads = options.threads, "llama.cpp may compute");
    Backend {
        name: "llama",
        tokenizer: model.clone(),
        sizes,
        model: ModelFacts {
            id: model_id(settings, settings.model.as_deref()),
            architecture: facts.architecture.clone(),
            file_bytes: facts.file_bytes,
            context_train: facts.context_train,
        },
        owners,
        keeps: owners > 0 && layout == LayoutKind::Streams,
        token_bytes: facts.state_bytes_per_token(),
        cost: None,
        with_engine: Box::new(move |run| {
            let mut context = model.context(&options)?;
            run(&mut context);
            Ok(())
        }),
    }
}
