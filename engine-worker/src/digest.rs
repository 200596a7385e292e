//! SHA-256, written as people compare it.

use std::{fs::File, io, path::Path};

use sha2::{Digest as _, Sha256};

/// Of a file, in hexadecimal. Takes a second for a few hundred megabytes.
///
/// # Errors
/// It cannot be read.
pub(crate) fn of_file(path: &Path) -> io::Result<String> {
    of_reader(File::open(path)?)
}

/// Of all that is left to read, in hexadecimal.
///
/// # Errors
/// It cannot be read.
pub(crate) fn of_reader(mut reader: impl io::Read) -> io::Result<String> {
    let mut hasher = Sha256::new();
    io::copy(&mut reader, &mut hasher)?;
    Ok(hex(&hasher.finalize()))
}

/// Of a text, in hexadecimal.
#[cfg(feature = "llama")]
pub(crate) fn of_text(text: &str) -> String {
    hex(&Sha256::digest(text))
}

/// Bytes in hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
