//! What both files read.
//!
//! The built-in text is the project's own prose: some 50 kB of English with a few tables. It is at hand
//! everywhere, and nobody has to fetch or license anything. Whoever serves other languages or code should
//! compare on such a text.

use std::{fs, path::Path};

use anyhow::{Context as _, ensure};
use llama::Model;
use text::Tokenizer as _;
use units::Token;

use crate::{digest, provenance::Source};

/// Tokens of a window, if the model was trained on as many.
const WINDOW: u32 = 512;

/// The longest text that is read, in bytes: far more than is ever scored.
const BYTES_MAX: u64 = 64 << 20;

const PROSE: [&str; 4] = [
    include_str!("../../../README.md"),
    include_str!("../../../docs/ARCHITECTURE.md"),
    include_str!("../../../docs/METHODOLOGY.md"),
    include_str!("../../../docs/HTTP.md"),
];

/// A text, and where it comes from.
#[derive(Debug)]
pub(super) struct Text {
    text: String,
    pub(super) source: Source,
}

impl Text {
    /// Reads a file, or takes the built-in text.
    ///
    /// # Errors
    /// There is no such file, or it is no text.
    pub(super) fn read(path: Option<&Path>) -> anyhow::Result<Self> {
        let (name, text) = match path {
            None => ("its own documentation".into(), PROSE.concat()),
            Some(path) => {
                (path.file_name().unwrap_or_default().to_string_lossy().into_owned(), load(path)?)
            }
        };
        let source = Source { name, sha256: digest::of_text(&text), bytes: text.len() as u64 };
        Ok(Self { text, source })
    }

    /// The text's tokens in whole windows, up to `count` of them; what is left over is left out. Each begins as
    /// the model wants its prompts to begin.
    ///
    /// # Errors
    /// There is not even one.
    pub(super) fn windows(&self, model: &Model, count: u32) -> anyhow::Result<Vec<Vec<Token>>> {
        let mut tokens = Vec::new();
        model.encode_plain(&self.text, &mut tokens);
        let length = WINDOW.min(model.facts().context_train.max(2)) as usize;
        let (name, found) = (&self.source.name, tokens.len());
        ensure!(
            found >= length,
            "the text {name} has {found} tokens, at least {length} are needed"
        );
        let vocabulary = model.vocabulary();
        let bos = vocabulary.bos().filter(|_| vocabulary.add_bos());
        let windows = tokens.chunks_exact(length).take(count as usize).map(|window| {
            let mut window = window.to_vec();
            window[0] = bos.unwrap_or(window[0]);
            window
        });
        Ok(windows.collect())
    }
}

fn load(path: &Path) -> anyhow::Result<String> {
    let cannot = || format!("cannot read the text {}", path.display());
    let data = fs::metadata(path).with_context(cannot)?;
    ensure!(data.is_file(), "the text {} is not a file", path.display());
    let (bytes, most) = (data.len(), BYTES_MAX);
    ensure!(
        bytes <= most,
        "the text {} has {bytes} bytes, at most {most} are read",
        path.display()
    );
    fs::read_to_string(path).with_context(cannot)
}
