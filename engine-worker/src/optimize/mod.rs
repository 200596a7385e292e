//! Writes a model file anew with weights that this processor is faster with, and measures what that is worth
//! and what it costs.
//!
//! Check the order -> quantise into a part ([`requantize`], a process of its own) -> read a text with both
//! files ([`likeness`]) -> time both in turn ([`speed`]) -> copy the part with its provenance into another
//! -> rename that to the target. Until then nothing has the target's name; parts are deleted whatever happens,
//! but for `kill -9`.

mod likeness;
mod parts;
mod progress;
pub(crate) mod requantize;
mod speed;
mod stop;
mod text;

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail, ensure};
use llama::{Model, Quantization};

use crate::{
    calibration::Machine,
    digest,
    provenance::{self, Maker, Provenance, Report, Source},
};

pub(crate) use progress::Progress;
pub(crate) use stop::Stop;

/// What is to be done.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    /// The original.
    pub(crate) source: PathBuf,
    /// The file to write; none: beside the original.
    pub(crate) target: Option<PathBuf>,
    pub(crate) to: Quantization,
    /// The text that both files read; none: the built-in one.
    pub(crate) text: Option<PathBuf>,
    /// Windows of the text at most.
    pub(crate) windows: u32,
    /// Times that each file's speed is measured, at least 1.
    pub(crate) rounds: u32,
    /// Threads of llama.cpp.
    pub(crate) threads: u32,
    pub(crate) existing: Existing,
}

/// What becomes of a file that has the target's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Existing {
    /// It stays, and that is an error.
    Refuse,
    /// It stays if it is what would be written; if it was made otherwise it is written anew; if it was not made
    /// here, that is an error.
    Refresh,
    /// It goes.
    Overwrite,
}

/// Makes the file, unless it is there; where it is, and what it says of itself.
///
/// # Errors
/// One line. Nothing has been written or overwritten then.
pub(crate) fn optimize(
    order: &Order,
    stop: &Stop,
    progress: Progress,
) -> anyhow::Result<(PathBuf, Provenance)> {
    let target = order.target();
    let text = text::Text::read(order.text.as_deref())?;
    let earlier = existing(order, &target)?;
    let source = described(&order.source)?;
    if let Some(earlier) = earlier.filter(|it| is_current(it, &source, order)) {
        return Ok((target, earlier));
    }
    let provenance = make(order, &target, source, &text, stop, progress)?;
    Ok((target, provenance))
}

impl Order {
    fn target(&self) -> PathBuf {
        self.target.clone().unwrap_or_else(|| {
            let stem = self.source.file_stem().unwrap_or_default();
            let mut name = stem.to_owned();
            name.push(format!(".{}.gguf", self.to.name()));
            self.source.with_file_name(name)
        })
    }
}

fn make(
    order: &Order,
    target: &Path,
    source: Source,
    text: &text::Text,
    stop: &Stop,
    progress: Progress,
) -> anyhow::Result<Provenance> {
    let original = Model::open(&order.source, 0)?;
    let (name, to) = (&source.name, order.to.name());
    ensure!(!original.is_quantized_as(order.to), "{name} is {to} already");
    let windows = text.windows(&original, order.windows)?;
    let part = parts::empty(target)?;
    let megabytes = source.bytes >> 20;
    progress.say(&format!("writing {name} ({megabytes} MiB) as {to}"));
    requantize::run(&order.source, &part, order, stop, progress)?;
    let optimized = Model::open(&part, 0).context("what was written")?;
    let files = [&original, &optimized];

    let likeness = likeness::measure(files, &windows, order.threads, stop, progress)?;
    let speed = speed::measure(files, &windows[0], order, stop, progress)?;
    let machine = format!("{}, {} threads", Machine::this().cpu, order.threads);
    let report = Report { machine, text: text.source.clone(), likeness, speed };
    let provenance = Provenance { maker: maker(), source, to: to.to_owned(), report };
    let overwrite = order.existing != Existing::Refuse;
    parts::publish(&part, target, &order.source, &provenance, overwrite)?;
    Ok(provenance)
}

fn maker() -> Maker {
    let tool = concat!(env!("CARGO_PKG_NAME"), " ", env!("CARGO_PKG_VERSION"));
    Maker { tool: tool.into(), llama_cpp: llama::VERSION.into() }
}

/// Checks what has the target's name; what it says of itself if it may be what is wanted.
fn existing(order: &Order, target: &Path) -> anyhow::Result<Option<Provenance>> {
    let shown = target.display();
    let Ok(there) = fs::metadata(target) else {
        // A link that leads nowhere is something all the same.
        ensure!(fs::symlink_metadata(target).is_err(), "{shown} is a link that leads nowhere");
        return Ok(None);
    };
    ensure!(there.is_file(), "{shown} is not a file");
    if let (Ok(from), Ok(to)) = (fs::canonicalize(&order.source), fs::canonicalize(target)) {
        ensure!(from != to, "{shown} is the model itself: write to another file");
    }
    match order.existing {
        Existing::Overwrite => Ok(None),
        Existing::Refuse => bail!("{shown} exists; --force overwrites it"),
        Existing::Refresh => match llama::read_note(target, provenance::KEY) {
            Ok(Some(note)) => Ok(Provenance::from_json(&note).ok()),
            Ok(None) | Err(_) => {
                bail!("{shown} exists and was not made by this command; --force overwrites it")
            }
        },
    }
}

/// Whether a file with this provenance is what would be written.
fn is_current(earlier: &Provenance, source: &Source, order: &Order) -> bool {
    let Source { sha256, bytes, name: _ } = source;
    earlier.source.sha256 == *sha256
        && earlier.source.bytes == *bytes
        && earlier.to == order.to.name()
        && earlier.maker == maker()
}

/// The original, as it is. One that was made here is no original.
fn described(path: &Path) -> anyhow::Result<Source> {
    let shown = path.display();
    let note = llama::read_note(path, provenance::KEY)?;
    ensure!(note.is_none(), "{shown} was made by this command; start from what it was made of");
    let bytes = fs::metadata(path).with_context(|| format!("cannot read {shown}"))?.len();
    let sha256 = digest::of_file(path).with_context(|| format!("cannot read {shown}"))?;
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(Source { name, sha256, bytes })
}
