//! llama.cpp with a real model, the one that `make run` serves.

mod chats;
mod drive;
mod evaluate;
mod files;
mod layouts;
mod quantize;
mod steps;
mod tokens;

use std::{
    path::{Path, PathBuf},
    sync::LazyLock,
};

use llama::Model;

/// The path of the model: `CADENCE_TEST_MODEL`, else where `make model` puts it.
fn model_path() -> PathBuf {
    std::env::var_os("CADENCE_TEST_MODEL").map_or_else(
        || {
            let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
            workspace.join(".cache/models/SmolLM2-135M-Instruct.Q4_1.gguf")
        },
        PathBuf::from,
    )
}

/// The model, opened once for all tests.
fn model() -> &'static Model {
    static MODEL: LazyLock<Model> = LazyLock::new(|| {
        let path = model_path();
        assert!(path.is_file(), "{} is missing: run `make model` first", path.display());
        Model::open(&path, 0).expect("the default model opens")
    });
    &MODEL
}
