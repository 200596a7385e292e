//! The llama.cpp backend.

use std::{path::Path, sync::Arc};

use anyhow::Context as _;
use llama::{LayoutKind as Layout, Model, Options};

use super::{Backend, ModelFacts, Sizes, model_id};
use crate::{
    provenance::{self, Provenance},
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
    let derived = settings.model.as_deref().and_then(provenance);
    // A re-quantised file goes by the name of its original.
    let original = derived.as_ref().map(|it| Path::new(&it.source.name));
    tracing::info!(threads = options.threads, "llama.cpp may compute");
    Backend {
        name: "llama",
        tokenizer: model.clone(),
        sizes,
        model: ModelFacts {
            id: model_id(settings, original.or(settings.model.as_deref())),
            architecture: facts.architecture.clone(),
            file_bytes: facts.file_bytes,
            context_train: facts.context_train,
            derived,
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

/// What the file says that it was made of. One whose words are not understood is served all the same.
fn provenance(path: &Path) -> Option<Provenance> {
    let note = llama::read_note(path, provenance::KEY).ok().flatten()?;
    let read = Provenance::from_json(&note);
    read.inspect_err(|error| tracing::warn!(%error, "the file's provenance makes no sense")).ok()
}
