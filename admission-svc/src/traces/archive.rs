//! A folder that is only read, by whoever exports what no service has.
//!
//! Nothing is made, renamed or removed here. sled may write to a database when it is opened, to put in
//! order what a kill left; so it needs the right to.

use std::path::Path;

use super::{Facts, Page, StoreError, folder::Folder, mark::Mark, segment::Segment};

/// Somebody's folder of rows.
pub(crate) struct Archive {
    folder: Folder,
    mark: Mark,
    /// First numbers, in order.
    segments: Vec<u64>,
    /// The one that was read last.
    reader: Option<Segment>,
}

impl Archive {
    /// Opens a folder that a trace store has made, and keeps services from it meanwhile.
    ///
    /// # Errors
    /// It is none, another process has it, or the system does not allow it.
    pub(crate) fn open(path: &Path) -> Result<Self, StoreError> {
        let folder = Folder::look_at(path)?;
        let segments = folder.segments()?;
        let mark = folder.read_mark();
        if mark.is_none() && segments.is_empty() {
            let reason = format!("{} holds neither a mark nor rows", path.display());
            return Err(StoreError::Broken { doing: "this is no trace folder", reason });
        }
        Ok(Self { folder, mark: mark.unwrap_or_default(), segments, reader: None })
    }

    /// At most `limit` rows above `after`, as [`super::TraceStore::page`]. A database that makes no sense is
    /// left out, and its rows are counted in [`Page::skipped`].
    ///
    /// # Errors
    /// The disk refuses.
    pub(crate) fn page(&mut self, after: u64, limit: usize) -> Result<Page, StoreError> {
        let ends = self.segments.iter().skip(1).map(|next| next - 1).chain([u64::MAX]);
        let mut parts = self.segments.iter().copied().zip(ends);
        let Some((first, end)) = parts.find(|(_, end)| *end > after) else {
            return Ok(Page::default());
        };
        let further = (end < u64::MAX).then_some(end);
        match self.read(first, after, limit) {
            Ok(page) => Ok(Page { next: page.next.or(further), ..page }),
            Err(StoreError::Broken { .. }) => {
                self.reader = None;
                let given = if further.is_some() { end } else { self.mark.numbered };
                // Of how many is not always known, but something is missing.
                let skipped = given.saturating_sub(after.max(first - 1)).max(1);
                Ok(Page { next: further, skipped, ..Page::default() })
            }
            Err(error @ (StoreError::Io { .. } | StoreError::InUse { .. })) => Err(error),
        }
    }

    /// What its service counted; what a kill has cost since then is not in it.
    pub(crate) fn facts(&self) -> Facts {
        let Mark { numbered, lost, .. } = self.mark;
        Facts { numbered, flushed: numbered, bytes: self.folder.bytes(), lost }
    }

    fn read(&mut self, first: u64, after: u64, limit: usize) -> Result<Page, StoreError> {
        let open = self.reader.take().filter(|reader| reader.first == first);
        let segment = match open {
            Some(segment) => segment,
            None => Segment::open_made(&self.folder.segment(first), first)?,
        };
        let found = segment.read(after, limit)?;
        let whole = (found.rows.len() as u64 + found.skipped) < limit as u64;
        let next = if whole { None } else { found.last.filter(|last| *last > after) };
        self.reader = Some(segment);
        Ok(Page { rows: found.rows, next, skipped: found.skipped })
    }
}
