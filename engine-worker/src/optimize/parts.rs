//! Files in the making: beside the target, under names of their own, gone unless they are published.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use tempfile::{Builder, NamedTempFile, TempPath};

use crate::provenance::{self, Provenance};

/// An empty file to write to.
///
/// # Errors
/// The target's folder is not there or cannot be written.
pub(super) fn empty(target: &Path) -> anyhow::Result<TempPath> {
    Ok(part(target)?.into_temp_path())
}

/// Copies a part with its provenance and gives the copy the target's name: whole, or not at all.
///
/// # Errors
/// The disk is full, or somebody made a file of that name meanwhile and it may not be overwritten.
pub(super) fn publish(
    part_path: &Path,
    target: &Path,
    source: &Path,
    provenance: &Provenance,
    overwrite: bool,
) -> anyhow::Result<()> {
    let cannot = || format!("cannot write {}", target.display());
    let mut copy = part(target)?;
    llama::copy_with_note(part_path, copy.as_file_mut(), provenance::KEY, &provenance.to_json())
        .with_context(cannot)?;
    // Whoever may read the original may read this; a temporary file is its owner's alone.
    let readers = fs::metadata(source).with_context(cannot)?.permissions();
    copy.as_file().set_permissions(readers).with_context(cannot)?;
    copy.as_file().sync_all().with_context(cannot)?;
    let published = if overwrite {
        // A link stays one: the file behind it is replaced.
        copy.persist(fs::canonicalize(target).unwrap_or_else(|_| target.to_owned()))
    } else {
        copy.persist_noclobber(target)
    };
    published.map(drop).map_err(|failed| failed.error).with_context(cannot)
}

/// Why something could not be written to `path`, in the system's words, if it still cannot.
pub(super) fn why_not_written(path: &Path) -> Option<io::Error> {
    let tried = fs::OpenOptions::new().append(true).open(path).and_then(|mut file| {
        io::Write::write_all(&mut file, &[0; 1 << 20])?;
        file.sync_all()
    });
    tried.err()
}

fn part(target: &Path) -> anyhow::Result<NamedTempFile> {
    let folder = match target.parent() {
        Some(folder) if folder != Path::new("") => folder.to_owned(),
        Some(_) | None => PathBuf::from("."),
    };
    Builder::new()
        .prefix(".cadence-")
        .suffix(".part")
        .tempfile_in(&folder)
        .with_context(|| format!("cannot write to the folder {}", folder.display()))
}
