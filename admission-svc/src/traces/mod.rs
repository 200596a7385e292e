//! Closed decisions, kept for whoever wants to learn from them.
//!
//! closed -> queued -> numbered and stored -> flushed -> exported, or removed when the cap is reached.
//! The actor only queues ([`keeper`]); a thread of its own numbers rows and owns the store, so a slow,
//! full or broken disk never holds up a decision. The store is a [`ring`] in memory or a folder on
//! disk ([`disk`]): a row of sled databases ([`segment`]), of which the oldest is removed whole.
//!
//! Promises:
//! - Numbers only grow, and none is given twice, whatever happens to the disk. A gap in them is a loss,
//!   and it is counted once; the one behind a lost mark is none.
//! - What has been flushed survives the end of the process; a kill loses what came since the last
//!   flush.
//! - Whatever the folder holds, the service starts and serves. What cannot be read is set aside.

mod archive;
pub(crate) mod columns;
mod disk;
mod folder;
mod frame;
mod keeper;
mod mark;
mod ring;
mod row;
mod segment;

use proto::v1::TraceRow;

pub(crate) use archive::Archive;
pub(crate) use disk::MAX_BYTES_LEAST;
pub use disk::{Caps, Disk};
pub use frame::{FrameError, decode, encode};
pub(crate) use keeper::{Keeper, Origin, Reading, Recorder};
pub use ring::Ring;

/// A place where rows are kept in order, numbered from 1.
pub trait TraceStore: Send {
    /// Makes sure that rows can be taken; until then none should be given.
    ///
    /// # Errors
    /// Not now; later perhaps.
    fn ready(&mut self) -> Result<(), StoreError>;

    /// Gives each row its number and keeps it. After an error rows may be lost that have their numbers:
    /// they are counted in [`Facts::lost`] when the store is ready again.
    ///
    /// # Errors
    /// The store could not take them.
    fn append(&mut self, rows: Vec<TraceRow>) -> Result<(), StoreError>;

    /// Makes what was appended survive the end of the process, and keeps within the caps.
    ///
    /// # Errors
    /// The store could not.
    fn flush(&mut self) -> Result<(), StoreError>;

    /// At most `limit` kept rows with a number above `after`, oldest first. A page may be short, or
    /// empty, with more to come: [`Page::next`] tells.
    ///
    /// # Errors
    /// The rows are there and cannot be had now.
    fn page(&mut self, after: u64, limit: usize) -> Result<Page, StoreError>;

    /// What an operator wants to know.
    fn facts(&self) -> Facts;
}

/// Some rows, and where to read on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page {
    /// The rows, oldest first.
    pub rows: Vec<TraceRow>,
    /// The `after` of the next page; absent when there is nothing more.
    pub next: Option<u64>,
    /// Rows of a version that this software does not know, or damaged ones: left out.
    pub skipped: u64,
}

/// A store in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The number of the latest row.
    pub numbered: u64,
    /// All rows up to this number are on disk, as far as they are not lost.
    pub flushed: u64,
    /// Bytes on disk; 0 in memory.
    pub bytes: u64,
    /// Numbered rows that could not be read back, since the folder was made.
    pub lost: u64,
}

/// Why a store cannot.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Another process has the folder.
    #[error("{folder} is in use by another process")]
    InUse {
        /// The folder.
        folder: String,
    },
    /// The disk says no: full, read-only, not allowed.
    #[error("{doing}: {reason}")]
    Io {
        /// What was tried.
        doing: &'static str,
        /// What the system says.
        reason: String,
    },
    /// What is on the disk makes no sense.
    #[error("{doing}: {reason}")]
    Broken {
        /// What was tried.
        doing: &'static str,
        /// What is wrong with it.
        reason: String,
    },
}

impl StoreError {
    fn io(doing: &'static str) -> impl Fn(std::io::Error) -> Self {
        move |error| Self::Io { doing, reason: error.to_string() }
    }
}
