//! Whether a file is a whole GGUF file.
//!
//! Reads the header, skips the metadata and compares the tensors' ends with the end of the file. What a
//! model means is llama.cpp's business; this only makes sure that it can be mapped without harm. Every
//! number in the file may be wrong, so each is compared with what the file can hold before it is used.

use std::io::{self, BufRead, Seek};

/// The first four bytes.
const MAGIC: [u8; 4] = *b"GGUF";

/// Versions of the format with 64-bit counts.
const VERSIONS: std::ops::RangeInclusive<u32> = 2..=3;

/// The least bytes of a metadata entry (key length, type, value) and of a tensor's description.
const ENTRY_BYTES_MIN: u64 = 8 + 4 + 1;
const TENSOR_BYTES_MIN: u64 = 8 + 4 + 4 + 8;

const DIMENSIONS_MAX: u32 = 4;
const ALIGNMENT_DEFAULT: u64 = 32;
const ALIGNMENT_KEY: &[u8] = b"general.alignment";
/// The longest key, tensor name or text that is read.
const SHORT_BYTES_MAX: u64 = 64 * 1024;
/// Arrays of arrays; the format allows them, no model nests them.
const NESTING_MAX: u32 = 4;

/// What is wrong with a file.
#[derive(Debug, thiserror::Error)]
pub enum GgufError {
    /// It cannot be read.
    #[error("it cannot be read: {0}")]
    Io(io::Error),
    /// It has no bytes.
    #[error("it is empty")]
    Empty,
    /// It begins with something else.
    #[error("it is no GGUF file")]
    Magic,
    /// It is older or newer than what is known, or of the other byte order.
    #[error("it has GGUF version {0}, and only {first} and {last} are known", first = VERSIONS.start(), last = VERSIONS.end())]
    Version(u32),
    /// It ends inside its description.
    #[error("it is cut off: its description does not end within its {bytes} bytes")]
    Header {
        /// Length of the file.
        bytes: u64,
    },
    /// It ends inside its weights.
    #[error("it is cut off: it has {bytes} of {needed} bytes")]
    Weights {
        /// Length of the file.
        bytes: u64,
        /// The end of the last tensor.
        needed: u64,
    },
    /// A number in it cannot be.
    #[error("it is damaged: {0}")]
    Damaged(&'static str),
}

/// Where the parts of a file lie, in bytes from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Map {
    /// Metadata entries; their number stands at [`ENTRIES_AT`].
    pub(crate) entries: u64,
    /// The end of the last entry, where the descriptions of the tensors begin.
    pub(crate) entries_end: u64,
    /// The end of the last description.
    pub(crate) tensors_end: u64,
    /// What the start of the weights is a multiple of.
    pub(crate) alignment: u64,
    /// The end of the last tensor.
    needed: u64,
}

/// Where the number of metadata entries stands: after the magic, the version and the number of tensors.
pub(crate) const ENTRIES_AT: u64 = 4 + 4 + 8;

impl Map {
    /// Where the weights begin.
    pub(crate) fn weights(&self) -> u64 {
        self.tensors_end.next_multiple_of(self.alignment)
    }
}

/// Checks a file of `bytes` bytes.
pub(crate) fn check(source: impl BufRead + Seek, bytes: u64) -> Result<Map, GgufError> {
    find(source, bytes, None).map(|(map, _)| map)
}

/// Checks a file of `bytes` bytes and reads the metadata entry `key`, if it is there and a text.
pub(crate) fn read_text(
    source: impl BufRead + Seek,
    bytes: u64,
    key: &str,
) -> Result<Option<String>, GgufError> {
    let (_, text) = find(source, bytes, Some(key.as_bytes()))?;
    let text = text.map(String::from_utf8).transpose();
    text.map_err(|_| GgufError::Damaged("a text is no UTF-8"))
}

fn find(
    source: impl BufRead + Seek,
    bytes: u64,
    wanted: Option<&[u8]>,
) -> Result<(Map, Option<Vec<u8>>), GgufError> {
    if bytes == 0 {
        return Err(GgufError::Empty);
    }
    let mut reader = Reader { source, bytes, position: 0, wanted, found: None };
    let map = reader.file()?;
    if map.needed > bytes {
        return Err(GgufError::Weights { bytes, needed: map.needed });
    }
    Ok((map, reader.found))
}

struct Reader<'key, R> {
    source: R,
    bytes: u64,
    position: u64,
    /// The key of an entry to read, and its text.
    wanted: Option<&'key [u8]>,
    found: Option<Vec<u8>>,
}

impl<R: BufRead + Seek> Reader<'_, R> {
    /// Reads the description.
    fn file(&mut self) -> Result<Map, GgufError> {
        let magic = match self.array::<4>() {
            Err(GgufError::Header { .. }) => return Err(GgufError::Magic),
            read => read?,
        };
        if magic != MAGIC {
            return Err(GgufError::Magic);
        }
        let version = self.u32()?;
        if !VERSIONS.contains(&version) {
            return Err(GgufError::Version(version));
        }
        let tensors = self.count(TENSOR_BYTES_MIN)?;
        let entries = self.count(ENTRY_BYTES_MIN)?;
        let mut alignment = ALIGNMENT_DEFAULT;
        for _ in 0..entries {
            if let Some(found) = self.entry()? {
                alignment = found;
            }
        }
        let entries_end = self.position;
        let mut end = 0;
        for _ in 0..tensors {
            end = end.max(self.tensor()?);
        }
        let mut map =
            Map { entries, entries_end, tensors_end: self.position, alignment, needed: 0 };
        let needed = map.weights().checked_add(end);
        map.needed = needed.ok_or(GgufError::Damaged("a tensor ends beyond any file"))?;
        Ok(map)
    }

    /// Skips a metadata entry; the alignment if it says it.
    fn entry(&mut self) -> Result<Option<u64>, GgufError> {
        let key = self.name()?;
        if key.is_empty() {
            return Err(GgufError::Damaged("a metadata entry has no name"));
        }
        let kind = self.u32()?;
        if self.wanted == Some(key.as_slice()) && kind == STRING {
            self.found = Some(self.text()?);
            return Ok(None);
        }
        if key != ALIGNMENT_KEY {
            self.skip_value(kind, 0)?;
            return Ok(None);
        }
        if kind != U32 {
            return Err(GgufError::Damaged("the alignment is no 32-bit number"));
        }
        match u64::from(self.u32()?) {
            alignment if alignment.is_power_of_two() => Ok(Some(alignment)),
            _ => Err(GgufError::Damaged("the alignment is no power of two")),
        }
    }

    fn skip_value(&mut self, kind: u32, nesting: u32) -> Result<(), GgufError> {
        match kind {
            STRING => {
                let length = self.u64()?;
                self.skip(length)
            }
            ARRAY if nesting < NESTING_MAX => {
                let kind = self.u32()?;
                let items = self.count(1)?;
                match fixed_bytes(kind) {
                    // Cannot overflow: there are fewer items than bytes in the file, and few bytes each.
                    Some(bytes) => self.skip(items.saturating_mul(bytes)),
                    None => (0..items).try_for_each(|_| self.skip_value(kind, nesting + 1)),
                }
            }
            other => match fixed_bytes(other) {
                Some(bytes) => self.skip(bytes),
                None => Err(GgufError::Damaged("a metadata value has an unknown type")),
            },
        }
    }

    /// Reads a tensor's description; where it ends within the weights, as far as its type is known.
    fn tensor(&mut self) -> Result<u64, GgufError> {
        self.name()?;
        let dimensions = self.u32()?;
        if dimensions > DIMENSIONS_MAX {
            return Err(GgufError::Damaged("a tensor has more than 4 dimensions"));
        }
        let mut values = 1_u64;
        for _ in 0..dimensions {
            let length = self.u64()?;
            values = values
                .checked_mul(length)
                .ok_or(GgufError::Damaged("a tensor has more values than any file"))?;
        }
        let kind = self.u32()?;
        let offset = self.u64()?;
        let size = match block(kind) {
            Some((block_values, block_bytes)) => {
                values.div_ceil(block_values).saturating_mul(block_bytes)
            }
            None => 0,
        };
        offset.checked_add(size).ok_or(GgufError::Damaged("a tensor ends beyond any file"))
    }

    /// A number of things that take at least `bytes_min` bytes each.
    fn count(&mut self, bytes_min: u64) -> Result<u64, GgufError> {
        let count = self.u64()?;
        if count > (self.bytes - self.position) / bytes_min {
            return Err(GgufError::Header { bytes: self.bytes });
        }
        Ok(count)
    }

    fn name(&mut self) -> Result<Vec<u8>, GgufError> {
        self.short("a name is longer than 64 KiB")
    }

    fn text(&mut self) -> Result<Vec<u8>, GgufError> {
        self.short("a text is longer than 64 KiB")
    }

    /// Bytes behind their number, which is small, or what is wrong otherwise.
    fn short(&mut self, too_long: &'static str) -> Result<Vec<u8>, GgufError> {
        let length = self.u64()?;
        if length > SHORT_BYTES_MAX {
            return Err(GgufError::Damaged(too_long));
        }
        self.take(length)?;
        let mut bytes = vec![0; usize::try_from(length).expect("at most 64 KiB")];
        self.source.read_exact(&mut bytes).map_err(GgufError::Io)?;
        Ok(bytes)
    }

    fn skip(&mut self, bytes: u64) -> Result<(), GgufError> {
        self.take(bytes)?;
        let bytes = i64::try_from(bytes).map_err(|_| GgufError::Header { bytes: self.bytes })?;
        self.source.seek_relative(bytes).map_err(GgufError::Io)
    }

    /// Counts `bytes` as read, if the file has them.
    fn take(&mut self, bytes: u64) -> Result<(), GgufError> {
        if bytes > self.bytes - self.position {
            return Err(GgufError::Header { bytes: self.bytes });
        }
        self.position += bytes;
        Ok(())
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], GgufError> {
        self.take(N as u64)?;
        let mut array = [0; N];
        self.source.read_exact(&mut array).map_err(GgufError::Io)?;
        Ok(array)
    }

    fn u32(&mut self) -> Result<u32, GgufError> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, GgufError> {
        self.array().map(u64::from_le_bytes)
    }
}

// Types of metadata values that are not of a fixed size, and the one that is looked at.
const U32: u32 = 4;
pub(crate) const STRING: u32 = 8;
const ARRAY: u32 = 9;

/// The size of a metadata value of type `kind`, if it is fixed.
fn fixed_bytes(kind: u32) -> Option<u64> {
    match kind {
        0 | 1 | 7 => Some(1),
        2 | 3 => Some(2),
        U32 | 5 | 6 => Some(4),
        10..=12 => Some(8),
        _ => None,
    }
}

/// Values and bytes of one block of a tensor of type `kind`. Types that are not listed are left to
/// llama.cpp.
fn block(kind: u32) -> Option<(u64, u64)> {
    Some(match kind {
        0 | 26 => (1, 4),      // F32, I32
        1 | 25 | 30 => (1, 2), // F16, I16, BF16
        24 => (1, 1),          // I8
        27 | 28 => (1, 8),     // I64, F64
        2 => (32, 18),         // Q4_0
        3 => (32, 20),         // Q4_1
        6 => (32, 22),         // Q5_0
        7 => (32, 24),         // Q5_1
        8 => (32, 34),         // Q8_0
        9 => (32, 36),         // Q8_1
        10 => (256, 84),       // Q2_K
        11 => (256, 110),      // Q3_K
        12 => (256, 144),      // Q4_K
        13 => (256, 176),      // Q5_K
        14 => (256, 210),      // Q6_K
        20 => (32, 18),        // IQ4_NL
        23 => (256, 136),      // IQ4_XS
        39 => (32, 17),        // MXFP4
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
