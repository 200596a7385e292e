//! One sled database: rows by number.
//!
//! sled may panic on what it finds on disk, and inside its own threads. Every call is contained: a
//! panic becomes an error, and after any error the database is dropped and opened again or set aside
//! by who holds it.

use std::{
    io::ErrorKind,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
};

use proto::v1::TraceRow;
use sled::{Batch, Db, Mode};

use super::{StoreError, frame};

/// What sled may keep in memory for one database, in its own count: what it really holds is a few times as
/// much. Rows are written once and read in order, so a cache helps nobody.
const CACHE_BYTES: u64 = 1 << 20;

/// An open database.
pub(super) struct Segment {
    /// The number that its first row has, or would have.
    pub(super) first: u64,
    /// Absent only while it is dropped.
    db: Option<Db>,
}

/// Rows as they lie in a database.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) rows: Vec<TraceRow>,
    /// Damaged, or of an unknown version.
    pub(super) skipped: u64,
    /// The last number that was looked at.
    pub(super) last: Option<u64>,
}

impl Segment {
    /// Opens a database, or makes one.
    pub(super) fn open(path: &Path, first: u64) -> Result<Self, StoreError> {
        let config = sled::Config::new()
            .path(path)
            .mode(Mode::LowSpace)
            .cache_capacity(CACHE_BYTES)
            // The keeper flushes.
            .flush_every_ms(None);
        let db = contained("cannot open the trace database", || config.open())?;
        Ok(Self { first, db: Some(db) })
    }

    /// Opens a database that is there.
    pub(super) fn open_made(path: &Path, first: u64) -> Result<Self, StoreError> {
        if !path.join("conf").is_file() {
            let reason = format!("{} is no database", path.display());
            return Err(StoreError::Broken { doing: "cannot open the trace database", reason });
        }
        Self::open(path, first)
    }

    /// Adds rows under their numbers, all or none.
    pub(super) fn insert(&self, rows: &[TraceRow]) -> Result<(), StoreError> {
        let mut batch = Batch::default();
        for row in rows {
            batch.insert(&row.number.to_be_bytes(), frame::encode(row));
        }
        contained("cannot write trace rows", || self.db().apply_batch(batch))
    }

    /// Returns once everything is on the disk.
    pub(super) fn flush(&self) -> Result<(), StoreError> {
        contained("cannot flush trace rows", || self.db().flush()).map(drop)
    }

    /// At most `limit` rows above `after`.
    pub(super) fn read(&self, after: u64, limit: usize) -> Result<Found, StoreError> {
        let Some(from) = after.checked_add(1) else { return Ok(Found::default()) };
        contained("cannot read trace rows", || {
            let mut found = Found::default();
            for entry in self.db().range(from.to_be_bytes()..).take(limit) {
                let (key, value) = entry?;
                let number = <[u8; 8]>::try_from(&*key).map(u64::from_be_bytes);
                match (number, frame::decode(&value)) {
                    (Ok(number), Ok(row)) if row.number == number => found.rows.push(row),
                    (Ok(_) | Err(_), Ok(_) | Err(_)) => found.skipped += 1,
                }
                found.last = number.ok().or(found.last);
            }
            Ok(found)
        })
    }

    /// How many rows can be read, and the number of the last of them.
    pub(super) fn scan(&self) -> Result<(u64, Option<u64>), StoreError> {
        let (mut readable, mut last, mut from) = (0, None, 0);
        loop {
            let found = self.read(from, 1_024)?;
            readable += found.rows.len() as u64;
            last = found.rows.last().map(|row| row.number).or(last);
            // Keys that do not move on would be read for ever.
            match found.last.filter(|it| *it > from) {
                Some(next) => from = next,
                None => return Ok((readable, last)),
            }
        }
    }

    /// The number of the last row, without a look at the others.
    pub(super) fn last(&self) -> Result<Option<u64>, StoreError> {
        let entry = contained("cannot read trace rows", || self.db().last())?;
        Ok(entry.and_then(|(key, _)| <[u8; 8]>::try_from(&*key).ok()).map(u64::from_be_bytes))
    }

    fn db(&self) -> &Db {
        self.db.as_ref().expect("only a drop takes it")
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        let db = self.db.take();
        // sled flushes when it is dropped, with all that can go wrong there.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(db)));
    }
}

/// Calls sled. A panic in it is one more error.
fn contained<T>(
    doing: &'static str,
    call: impl FnOnce() -> sled::Result<T>,
) -> Result<T, StoreError> {
    // After a panic the database is dropped unseen, so no broken state is looked at.
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) => Err(sorted(doing, &error)),
        Err(panic) => {
            let said = panic.downcast_ref::<String>().map(String::as_str);
            let said = said.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("?");
            Err(StoreError::Broken { doing, reason: format!("sled panicked: {said}") })
        }
    }
}

/// Tells what the disk refuses from what makes no sense on it.
fn sorted(doing: &'static str, error: &sled::Error) -> StoreError {
    let reason = error.to_string();
    match error {
        sled::Error::Io(io) if !makes_no_sense(io.kind()) => StoreError::Io { doing, reason },
        sled::Error::Io(_)
        | sled::Error::Corruption { .. }
        | sled::Error::ReportableBug(_)
        | sled::Error::Unsupported(_)
        | sled::Error::CollectionNotFound(_) => StoreError::Broken { doing, reason },
    }
}

fn makes_no_sense(kind: ErrorKind) -> bool {
    [ErrorKind::UnexpectedEof, ErrorKind::InvalidData, ErrorKind::InvalidInput].contains(&kind)
}
