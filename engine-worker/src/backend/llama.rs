//! The llama.cpp backend.

use std::{sync::Arc, thread};

use anyhow::Context as _;
use llama::{LayoutKind as Layout, Model, Options};

use super::{Backend, ModelFacts, Sizes, model_id};
use crate::{
    scheduling,
    settings::{EngineSettings, LayoutKind, PrefixCacheKind},
};

pub(super) fn load(settings: &EngineSettings) -> anyhow::Result<Backend> {
    let path = settings.model.as_deref().context("model: the llama backend needs a GGUF file")?;
    let model = Arc::new(Model::open(path, settings.gpu_layers)?);
    let facts = model.facts().clone();
    let sizes = Sizes::choose(settings, facts.kv_bytes_per_token, facts.context_train);
    let owners = scheduling::owners(&settings.scheduling, sizes.slots, facts.reusable);
    if !facts.reusable && settings.scheduling.prefix_cache == PrefixCacheKind::Auto {
        tracing::warn!("the KV of this model cannot be cut and reused: there is no prefix cache");
    }
    let options = Options {
        slots: sizes.slots,
        owners,
        layout: match settings.scheduling.layout {
            LayoutKind::Streams => Layout::Streams,
            LayoutKind::Unified => Layout::Unified { cells: sizes.kv_blocks.tokens().0 },
        },
        context_tokens: sizes.context_tokens,
        batch_tokens: settings.batch_tokens.max(sizes.slots),
        threads: threads(settings),
    };
    tracing::info!(threads = options.threads, "llama.cpp may compute");
    Ok(Backend {
        name: "llama",
        tokenizer: model.clone(),
        sizes,
        model: ModelFacts {
            id: model_id(settings, Some(path)),
            architecture: facts.architecture.clone(),
            file_bytes: facts.file_bytes,
            context_train: facts.context_train,
        },
        owners,
        token_bytes: facts.state_bytes_per_token(),
        cost: None,
        with_engine: Box::new(move |run| {
            let mut context = model.context(&options)?;
            run(&mut context);
            Ok(())
        }),
    })
}

/// The standard library counts what a control group allows, so a limited container does not oversubscribe
/// its processors.
fn threads(settings: &EngineSettings) -> u32 {
    match settings.threads {
        0 => thread::available_parallelism()
            .map_or(1, |count| u32::try_from(count.get()).unwrap_or(1)),
        set => set,
    }
}
