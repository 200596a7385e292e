//! Where numbering stands, beside the databases: written before rows are, so that after a kill it says
//! which numbers were given even when the rows did not reach the disk.
//!
//! It is overwritten in place by one small write, and synchronised only when a new database is begun: it
//! has to survive the end of the process, not of the machine. After the machine's end the databases are
//! asked.

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::FileExt as _,
    path::Path,
};

const MAGIC: [u8; 8] = *b"CTRmark1";
const BYTES: usize = 44;

/// Where numbering stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mark {
    /// The highest number that was given.
    pub(super) numbered: u64,
    /// Rows that could not be read back, ever.
    pub(super) lost: u64,
    /// The first number of the newest segment when this was written.
    pub(super) segment: u64,
    /// Those of `lost` that belong to that segment: already counted.
    pub(super) lost_there: u64,
}

impl Mark {
    /// Reads it. `None`: there is none, or it is damaged.
    pub(super) fn read(path: &Path) -> Option<Self> {
        let bytes: [u8; BYTES] = std::fs::read(path).ok()?.try_into().ok()?;
        let (content, sum) = bytes.split_last_chunk::<4>()?;
        if !content.starts_with(&MAGIC) || crc32fast::hash(content).to_le_bytes() != *sum {
            return None;
        }
        let mut numbers = content[MAGIC.len()..].as_chunks::<8>().0.iter();
        let mut next = || numbers.next().map(|bytes| u64::from_le_bytes(*bytes));
        Some(Self { numbered: next()?, lost: next()?, segment: next()?, lost_there: next()? })
    }

    /// Writes it over what is there.
    pub(super) fn write(&self, file: &File) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(BYTES);
        bytes.extend(MAGIC);
        for number in [self.numbered, self.lost, self.segment, self.lost_there] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        file.write_all_at(&bytes, 0)
    }

    /// The file to write it to.
    pub(super) fn file(path: &Path) -> io::Result<File> {
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
        // A longer one is damaged, and would stay so.
        file.set_len(BYTES as u64)?;
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_comes_back_unless_it_is_damaged() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("mark");
        assert_eq!(Mark::read(&path), None);
        let mark = Mark { numbered: 9, lost: 3, segment: 5, lost_there: 1 };
        mark.write(&Mark::file(&path).expect("a file")).expect("written");
        assert_eq!(Mark::read(&path), Some(mark));
        let good = std::fs::read(&path).expect("there");
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            std::fs::write(&path, bad).expect("written");
            assert_eq!(Mark::read(&path), None, "byte {at}");
        }
        std::fs::write(&path, &good[..20]).expect("written");
        assert_eq!(Mark::read(&path), None);
    }
}
