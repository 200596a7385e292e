//! Rows on disk: a folder of databases, the newest of which is written.
//!
//! not ready -> (recovered | begun) -> ready -> (failed) -> not ready. Space that sled does not give
//! back comes back with a whole database, the oldest first; so the cap is real. A database that cannot
//! be read is set aside and its rows count as lost; one that the disk refuses is tried again.

use std::{collections::BTreeSet, path::Path};

use proto::v1::TraceRow;

use super::{Facts, Page, StoreError, TraceStore, folder::Folder, mark::Mark, segment::Segment};

/// The folder is cut into this many databases: as much as one of them is removed at once.
const PARTS: u64 = 8;
/// The least that a folder may hold.
pub(crate) const MAX_BYTES_LEAST: u64 = 8 << 20;
/// No database ever gets this many numbers, so numbering can go on beyond one that cannot be read.
const SEGMENT_NUMBERS: u64 = 1_000_000;
/// A process that was ended so often while it opened a database no longer looks at every row of it: an
/// operator's kills during a long look are no fault of the database.
const LOOKS_MAX: u32 = 2;
/// A process that died so often over a database leaves it alone.
const OPENINGS_MAX: u32 = 4;
/// A database that the disk refuses so often although there is room counts as unreadable.
const REFUSALS_MAX: u32 = 10;

/// How much is kept; older rows are removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps {
    /// Bytes of the whole folder, at least 8 MiB.
    pub bytes: u64,
    /// Rows, at least 8.
    pub rows: u64,
}

/// A folder of rows that this process has for itself.
pub struct Disk {
    folder: Folder,
    caps: Caps,
    mark: Mark,
    /// First numbers, in order.
    segments: Vec<u64>,
    /// The open one that is written: the last of `segments`, and the one that `mark` names.
    newest: Option<Segment>,
    /// An older one that was read last.
    reader: Option<Segment>,
    refusals: u32,
    /// Which older database the disk refused to be read, and how often.
    refused_reads: Option<(u64, u32)>,
    /// Older databases whose rows were counted since the start.
    looked_at: BTreeSet<u64>,
    flushed: u64,
    bytes: u64,
}

impl Disk {
    /// Takes a folder; it is made if need be. Nothing is opened yet: that is [`TraceStore::ready`]'s.
    ///
    /// # Errors
    /// Another process has it, or the system does not allow it.
    pub fn open(path: &Path, caps: Caps) -> Result<Self, StoreError> {
        let folder = Folder::take(path)?;
        let segments = folder.segments()?;
        let mark = agreed(folder.read_mark(), segments.last().copied());
        let bytes = folder.bytes();
        Ok(Self {
            folder,
            caps,
            mark,
            segments,
            newest: None,
            reader: None,
            refusals: 0,
            refused_reads: None,
            looked_at: BTreeSet::new(),
            flushed: 0,
            bytes,
        })
    }

    /// Opens the database that was written last, and counts what did not reach it.
    fn recover(&mut self, first: u64) -> Result<(), StoreError> {
        let recovered = self.open_guarded(first, |segment, before| {
            if before < LOOKS_MAX { segment.scan().map(Some) } else { Ok(None) }
        });
        match recovered {
            Ok((segment, scanned)) => {
                self.refusals = 0;
                match scanned {
                    Some((readable, last)) => self.account(first, readable, last),
                    // What was lost is counted when it is looked at again.
                    None => {
                        self.mark.numbered = self.mark.numbered.max(segment.last()?.unwrap_or(0))
                    }
                }
                self.flushed = self.mark.numbered;
                self.newest = Some(segment);
                self.folder.write_mark(&self.mark)
            }
            Err(error @ StoreError::Broken { .. }) => self.give_up(first, &error),
            Err(error @ (StoreError::Io { .. } | StoreError::InUse { .. })) => {
                self.refusals += 1;
                if self.refusals < REFUSALS_MAX { Err(error) } else { self.give_up(first, &error) }
            }
        }
    }

    /// Somebody has removed the folder: what was in it is lost, and numbers go on in a new one.
    fn start_over(&mut self) -> Result<(), StoreError> {
        (self.newest, self.reader) = (None, None);
        self.folder.take_again()?;
        let lost = self.rows().saturating_sub(self.mark.lost_there);
        tracing::error!(lost, "the trace folder was removed; it is made again");
        self.mark = Mark { lost: self.mark.lost + lost, lost_there: 0, ..self.mark };
        self.segments.clear();
        self.begin()
    }

    fn give_up(&mut self, first: u64, why: &StoreError) -> Result<(), StoreError> {
        self.refusals = 0;
        self.set_aside(first, why)?;
        self.begin()
    }

    /// Numbers that were given and have no row any more are lost.
    fn account(&mut self, first: u64, readable: u64, last: Option<u64>) {
        self.mark.numbered = self.mark.numbered.max(last.unwrap_or(0));
        let given = (self.mark.numbered + 1).saturating_sub(first);
        let lost = given.saturating_sub(readable + self.mark.lost_there);
        self.mark.lost += lost;
        self.mark.lost_there += lost;
        if lost > 0 {
            tracing::warn!(lost, readable, "trace rows had not reached the disk and are lost");
        }
    }

    /// Opens a database and has a look at it, so that a process that dies over it will know. The look is
    /// told how often that happened.
    fn open_guarded<T>(
        &self,
        first: u64,
        look: impl FnOnce(&Segment, u32) -> Result<T, StoreError>,
    ) -> Result<(Segment, T), StoreError> {
        let before = self.folder.opening(first);
        if before >= OPENINGS_MAX {
            let reason = format!("the process has ended {before} times over it");
            return Err(StoreError::Broken { doing: "cannot open the trace database", reason });
        }
        let opened = Segment::open(&self.folder.segment(first), first).and_then(|segment| {
            let seen = look(&segment, before)?;
            Ok((segment, seen))
        });
        self.folder.opened();
        opened
    }

    /// How many numbers a database was given. 0 when that is not known, because the mark was lost and
    /// numbers were left out behind it.
    fn given(&self, first: u64) -> u64 {
        let next = self.segments.iter().find(|it| **it > first);
        let end = next.copied().unwrap_or(self.mark.numbered + 1);
        Some(end.saturating_sub(first)).filter(|given| *given < SEGMENT_NUMBERS).unwrap_or(0)
    }

    /// Counts what an older database no longer has.
    fn account_older(&mut self, first: u64, readable: u64) -> Result<(), StoreError> {
        self.looked_at.insert(first);
        let counted = self.folder.lost_of(first);
        let lost = self.given(first).saturating_sub(readable + counted);
        if lost == 0 {
            return Ok(());
        }
        // In this order a kill in between can forget a loss, but not count it twice.
        self.folder.keep_lost(first, counted + lost)?;
        self.mark.lost += lost;
        tracing::warn!(lost, readable, "trace rows of an older database are lost");
        self.folder.write_mark(&self.mark)
    }

    /// Puts a database out of the way and counts its rows as lost.
    fn set_aside(&mut self, first: u64, why: &StoreError) -> Result<(), StoreError> {
        let is_newest = first == self.mark.segment;
        let counted = if is_newest { self.mark.lost_there } else { self.folder.lost_of(first) };
        let lost = self.given(first).saturating_sub(counted);
        self.folder.set_aside(first)?;
        self.folder.opened();
        if is_newest {
            self.mark.lost_there = 0;
        }
        self.segments.retain(|it| *it != first);
        self.mark.lost += lost;
        tracing::error!(lost, "a trace database was set aside: {why}");
        self.folder.write_mark(&self.mark)
    }

    /// Makes a new database the newest.
    fn begin(&mut self) -> Result<(), StoreError> {
        self.newest = None;
        let first = self.mark.numbered + 1;
        if self.segments.last() != Some(&first) {
            // What lies there and is not listed is what an earlier try left.
            let _ = self.folder.remove(first);
        }
        let opened = Segment::open(&self.folder.segment(first), first);
        let segment = opened.inspect_err(|_| drop(self.folder.remove(first)))?;
        if self.mark.lost_there > 0 {
            self.folder.keep_lost(self.mark.segment, self.mark.lost_there)?;
        }
        self.mark = Mark { segment: first, lost_there: 0, ..self.mark };
        self.folder.write_mark(&self.mark)?;
        // Rare, and what the mark says of older databases is known nowhere else.
        self.folder.sync_mark()?;
        if self.segments.last() != Some(&first) {
            self.segments.push(first);
        }
        self.newest = Some(segment);
        Ok(())
    }

    /// How many rows a database takes before the next is begun.
    fn rows_of_a_part(&self) -> u64 {
        (self.caps.rows / PARTS).clamp(1, SEGMENT_NUMBERS / 2)
    }

    /// Begins a new database when the newest is big enough, and removes the oldest ones beyond the cap.
    fn keep_within_caps(&mut self) -> Result<(), StoreError> {
        let Some(first) = self.newest.as_ref().map(|newest| newest.first) else { return Ok(()) };
        let rows = self.mark.numbered + 1 - first;
        let rows_max = self.rows_of_a_part();
        let part = self.caps.bytes / PARTS;
        if rows > 0 && (rows >= rows_max || self.folder.segment_bytes(first) >= part) {
            self.begin()?;
        }
        self.bytes = self.folder.bytes();
        // One part is kept free for what is written until the next time.
        while self.bytes > self.caps.bytes - part || self.rows() > self.caps.rows {
            if !self.forget_oldest().map_err(StoreError::io("cannot remove old traces"))? {
                break;
            }
            self.bytes = self.folder.bytes();
        }
        Ok(())
    }

    /// The rows that are kept, by their numbers. Numbers that were left out when the mark was lost are not
    /// rows: no database grows to twice its part.
    fn rows(&self) -> u64 {
        let most = 2 * self.rows_of_a_part();
        let ends = self.segments.iter().skip(1).copied().chain([self.mark.numbered + 1]);
        self.segments.iter().zip(ends).map(|(first, end)| (end - first).min(most)).sum()
    }

    fn forget_oldest(&mut self) -> std::io::Result<bool> {
        if self.folder.forget_aside()? {
            return Ok(true);
        }
        let [oldest, _, ..] = self.segments[..] else { return Ok(false) };
        self.reader = self.reader.take().filter(|reader| reader.first != oldest);
        self.folder.remove(oldest)?;
        self.segments.remove(0);
        Ok(true)
    }

    /// An older database could not be had. One that the disk refuses again and again must not keep every
    /// export from the others: it counts as unreadable then.
    fn refused(&mut self, first: u64, error: StoreError) -> Result<(), StoreError> {
        // A full disk is no fault of the database.
        self.folder.has_room()?;
        let before = self.refused_reads.filter(|(which, _)| *which == first);
        let times = before.map_or(1, |(_, times)| times + 1);
        self.refused_reads = Some((first, times));
        if times < REFUSALS_MAX {
            return Err(error);
        }
        self.refused_reads = None;
        self.set_aside(first, &error)
    }

    /// The database of these numbers, if it can be read. One that makes no sense is set aside.
    fn reader(&mut self, first: u64) -> Result<Option<&Segment>, StoreError> {
        if self.newest.as_ref().is_some_and(|newest| newest.first == first) {
            return Ok(self.newest.as_ref());
        }
        if first == self.mark.segment {
            // Passing over it would make an export that lacks rows look whole.
            return Err(StoreError::Io {
                doing: "cannot read trace rows",
                reason: "the newest database waits for its recovery".into(),
            });
        }
        if self.reader.as_ref().is_none_or(|reader| reader.first != first) {
            self.reader = None;
            let is_new = !self.looked_at.contains(&first);
            let opened = self.open_guarded(first, |segment, before| {
                let look = is_new && before < LOOKS_MAX;
                if look { segment.scan().map(Some) } else { Ok(None) }
            });
            match opened {
                Ok((segment, scanned)) => {
                    if let Some((readable, _)) = scanned {
                        self.account_older(first, readable)?;
                    }
                    self.reader = Some(segment);
                }
                Err(error @ StoreError::Broken { .. }) => self.set_aside(first, &error)?,
                Err(error @ (StoreError::Io { .. } | StoreError::InUse { .. })) => {
                    return self.refused(first, error).map(|()| None);
                }
            }
        }
        Ok(self.reader.as_ref())
    }
}

/// Where numbering goes on, by the mark and by the newest database that there is.
fn agreed(mark: Option<Mark>, newest: Option<u64>) -> Mark {
    match (mark, newest) {
        (None, None) => Mark::default(),
        (Some(mark), Some(newest)) if mark.segment < newest => {
            // The machine stopped before the mark was on the disk.
            let numbered = mark.numbered.max(newest - 1);
            Mark { numbered, segment: newest, lost_there: 0, ..mark }
        }
        (Some(mark), Some(_) | None) => mark,
        (None, Some(newest)) => {
            let numbered = newest + SEGMENT_NUMBERS;
            tracing::warn!(
                numbered,
                "the trace mark was unreadable: numbering goes on behind all that can have been given, \
                 and how many rows were lost is not known"
            );
            Mark { numbered, ..Mark::default() }
        }
    }
}

impl TraceStore for Disk {
    fn ready(&mut self) -> Result<(), StoreError> {
        if !self.folder.is_ours() {
            return self.start_over();
        }
        if self.newest.is_some() {
            return Ok(());
        }
        self.folder.has_room()?;
        match self.segments.last().copied() {
            Some(newest) if newest == self.mark.segment => self.recover(newest),
            Some(_) | None => self.begin(),
        }
    }

    fn append(&mut self, mut rows: Vec<TraceRow>) -> Result<(), StoreError> {
        self.ready()?;
        for row in &mut rows {
            self.mark.numbered += 1;
            row.number = self.mark.numbered;
        }
        let Some(newest) = &self.newest else { return Ok(()) };
        let written = self.folder.write_mark(&self.mark).and_then(|()| newest.insert(&rows));
        written.inspect_err(|_| self.newest = None)
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        if self.newest.is_some() && !self.folder.is_ours() {
            return self.start_over();
        }
        let Some(newest) = &self.newest else { return Ok(()) };
        if let Err(error) = newest.flush() {
            self.newest = None;
            return Err(error);
        }
        self.flushed = self.mark.numbered;
        self.keep_within_caps()
    }

    fn page(&mut self, after: u64, limit: usize) -> Result<Page, StoreError> {
        let ends = self.segments.iter().skip(1).map(|next| next - 1);
        let ends: Vec<u64> = ends.chain([self.mark.numbered]).collect();
        let parts: Vec<_> = self.segments.iter().copied().zip(ends).collect();
        let Some((first, end)) = parts.into_iter().find(|(_, end)| *end > after) else {
            return Ok(Page::default());
        };
        let further = (end < self.mark.numbered).then_some(end);
        let Some(segment) = self.reader(first)? else {
            return Ok(Page { next: further, ..Page::default() });
        };
        match segment.read(after, limit) {
            Ok(found) => {
                let looked_at = found.rows.len() as u64 + found.skipped;
                let whole = looked_at < limit as u64;
                let next = if whole { further } else { found.last.filter(|last| *last > after) };
                Ok(Page { rows: found.rows, next, skipped: found.skipped })
            }
            Err(error) => {
                self.reader = None;
                if first == self.mark.segment {
                    self.newest = None;
                }
                match error {
                    StoreError::Broken { .. } if first != self.mark.segment => {
                        self.set_aside(first, &error)?;
                        Ok(Page { next: further, ..Page::default() })
                    }
                    StoreError::Io { .. } | StoreError::InUse { .. }
                        if first != self.mark.segment =>
                    {
                        self.refused(first, error)?;
                        Ok(Page { next: further, ..Page::default() })
                    }
                    StoreError::Broken { .. }
                    | StoreError::Io { .. }
                    | StoreError::InUse { .. } => Err(error),
                }
            }
        }
    }

    fn facts(&self) -> Facts {
        Facts {
            numbered: self.mark.numbered,
            flushed: self.flushed,
            bytes: self.bytes,
            lost: self.mark.lost,
        }
    }
}
