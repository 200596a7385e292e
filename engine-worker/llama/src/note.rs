//! A note in the metadata of a GGUF file: what made the file can say so in it.

use std::{
    fs::File,
    io::{self, Read as _, Seek as _, SeekFrom, Write},
    path::{Path, PathBuf},
};

use crate::{
    GgufError, OpenError,
    gguf::{self, ENTRIES_AT, Map, STRING},
    model::{check_file, open_file},
};

/// Why a file cannot be copied.
#[derive(Debug, thiserror::Error)]
pub enum NoteError {
    /// The file is not there, or is no whole GGUF file.
    #[error(transparent)]
    Source(#[from] OpenError),
    /// The copy cannot be written, or the file not be read on.
    #[error("cannot copy {path}: {reason}")]
    Copy {
        /// The file.
        path: PathBuf,
        /// What the system says.
        reason: io::Error,
    },
}

/// Reads the text that stands under `key` in the metadata of a GGUF file, up to 64 KiB. Does not load the
/// model.
///
/// # Errors
/// There is no file, or it is no whole GGUF file.
pub fn read_note(path: &Path, key: &str) -> Result<Option<String>, OpenError> {
    let (file, bytes) = open_file(path)?;
    gguf::read_text(file, bytes, key)
        .map_err(|reason: GgufError| OpenError::Gguf { path: path.to_owned(), reason })
}

/// Copies the GGUF file `source` into `target`, with a text under `key` more in its metadata. No entry of the
/// source may have that key.
///
/// # Errors
/// The source is no whole GGUF file, or the copy cannot be written. What is in `target` then is of no use.
pub fn copy_with_note(
    source: &Path,
    target: &mut File,
    key: &str,
    text: &str,
) -> Result<(), NoteError> {
    let (_, map) = check_file(source)?;
    let copy = |reason| NoteError::Copy { path: source.to_owned(), reason };
    let mut from = File::open(source).map_err(copy)?;
    rewrite(&mut from, target, map, &entry(key, text)).map_err(copy)
}

/// A metadata entry: its key, its type, its text.
fn entry(key: &str, text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(key.len() + text.len() + 20);
    bytes.extend((key.len() as u64).to_le_bytes());
    bytes.extend(key.bytes());
    bytes.extend(STRING.to_le_bytes());
    bytes.extend((text.len() as u64).to_le_bytes());
    bytes.extend(text.bytes());
    bytes
}

/// Tensors say where they lie from the start of the weights on, so that their descriptions stay as they are.
fn rewrite(from: &mut File, to: &mut File, map: Map, entry: &[u8]) -> io::Result<()> {
    from.seek(SeekFrom::Start(0))?;
    copy_bytes(from, to, ENTRIES_AT)?;
    to.write_all(&(map.entries + 1).to_le_bytes())?;
    let entries = ENTRIES_AT + 8;
    from.seek(SeekFrom::Start(entries))?;
    copy_bytes(from, to, map.entries_end - entries)?;
    to.write_all(entry)?;
    copy_bytes(from, to, map.tensors_end - map.entries_end)?;
    let end = map.tensors_end + entry.len() as u64;
    let padding = end.next_multiple_of(map.alignment) - end;
    io::copy(&mut io::repeat(0).take(padding), to)?;
    from.seek(SeekFrom::Start(map.weights()))?;
    io::copy(from, to)?;
    to.flush()
}

fn copy_bytes(from: &mut File, to: &mut File, bytes: u64) -> io::Result<()> {
    let copied = io::copy(&mut from.take(bytes), to)?;
    if copied == bytes { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

#[cfg(test)]
mod tests;
