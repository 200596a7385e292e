//! The folder of a store:
//!
//! - `lock`: held by the process that has it;
//! - `mark`: where numbering stands;
//! - `rows-<first number>`: a database each;
//! - `lost-<first number>`: how many rows of an older database are counted as lost already;
//! - `opening`: which database is being opened, and how often that was tried without coming to an end;
//! - `aside-<first number>`: databases that could not be read, the latest two.

use std::{
    fs::{self, File, TryLockError},
    io::{self, Write as _},
    ops::RangeInclusive,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use super::{
    StoreError,
    mark::{self, Mark},
};

/// More than sled needs to open a database and take a batch.
const ROOM_BYTES: usize = 2 << 20;
/// Numbers that can have been given; a stranger's file is not counted on.
const NUMBERS: RangeInclusive<u64> = 1..=u64::MAX / 2;
/// How many unreadable databases are kept for whoever wants to look.
const ASIDE_MAX: usize = 2;

/// A folder that this process has for itself.
pub(super) struct Folder {
    path: PathBuf,
    /// Made when it is first written.
    mark: Option<File>,
    /// Let go with the process, however it ends. Absent where nobody has ever made one.
    lock: Option<File>,
}

impl Folder {
    /// Takes the folder, and makes it if need be.
    pub(super) fn take(path: &Path) -> Result<Self, StoreError> {
        fs::create_dir_all(path).map_err(StoreError::io("cannot make the trace folder"))?;
        let lock = File::options().create(true).truncate(false).write(true).open(path.join("lock"));
        let lock = lock.map_err(StoreError::io("cannot make the trace folder's lock"))?;
        Self::locked(path, Some(lock))
    }

    /// Takes a folder that is there, and makes nothing in it.
    pub(super) fn look_at(path: &Path) -> Result<Self, StoreError> {
        match File::open(path.join("lock")) {
            Ok(lock) => Self::locked(path, Some(lock)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::locked(path, None),
            Err(error) => Err(StoreError::io("cannot open the trace folder's lock")(error)),
        }
    }

    fn locked(path: &Path, lock: Option<File>) -> Result<Self, StoreError> {
        match lock.as_ref().map_or(Ok(()), File::try_lock) {
            Ok(()) => Ok(Self { path: path.into(), mark: None, lock }),
            Err(TryLockError::WouldBlock) => {
                Err(StoreError::InUse { folder: path.display().to_string() })
            }
            Err(TryLockError::Error(error)) => {
                Err(StoreError::io("cannot lock the trace folder")(error))
            }
        }
    }

    /// Whether the lock that is held is still the one that lies there: somebody may have removed the folder.
    pub(super) fn is_ours(&self) -> bool {
        let identity = |meta: fs::Metadata| (meta.dev(), meta.ino());
        let held = self.lock.as_ref().and_then(|lock| lock.metadata().ok()).map(identity);
        held.is_some() && held == fs::metadata(self.path.join("lock")).ok().map(identity)
    }

    /// Makes it again after it was removed.
    pub(super) fn take_again(&mut self) -> Result<(), StoreError> {
        *self = Self::take(&self.path.clone())?;
        Ok(())
    }

    /// First numbers of the databases, in order.
    pub(super) fn segments(&self) -> Result<Vec<u64>, StoreError> {
        self.numbered("rows-").map_err(StoreError::io("cannot list the trace folder"))
    }

    pub(super) fn segment(&self, first: u64) -> PathBuf {
        self.path.join(format!("rows-{first:020}"))
    }

    /// How many rows of an older database are counted as lost.
    pub(super) fn lost_of(&self, first: u64) -> u64 {
        let text = fs::read_to_string(self.lost(first)).unwrap_or_default();
        text.trim().parse().unwrap_or(0)
    }

    pub(super) fn keep_lost(&self, first: u64, rows: u64) -> Result<(), StoreError> {
        let written = fs::write(self.lost(first), format!("{rows}\n"));
        written.map_err(StoreError::io("cannot note lost trace rows"))
    }

    fn lost(&self, first: u64) -> PathBuf {
        self.path.join(format!("lost-{first:020}"))
    }

    pub(super) fn remove(&self, first: u64) -> io::Result<()> {
        // Most have none.
        let _ = fs::remove_file(self.lost(first));
        fs::remove_dir_all(self.segment(first))
    }

    /// Renames a database out of the way, and forgets the oldest of those that were.
    pub(super) fn set_aside(&self, first: u64) -> Result<(), StoreError> {
        let aside = |first: u64| self.path.join(format!("aside-{first:020}"));
        let failed = StoreError::io("cannot set a trace database aside");
        if aside(first).exists() {
            fs::remove_dir_all(aside(first)).map_err(&failed)?;
        }
        fs::rename(self.segment(first), aside(first)).map_err(&failed)?;
        let _ = fs::remove_file(self.lost(first));
        let all = self.numbered("aside-").map_err(&failed)?;
        let excess = all.len().saturating_sub(ASIDE_MAX);
        all[..excess].iter().try_for_each(|it| fs::remove_dir_all(aside(*it))).map_err(failed)
    }

    /// Forgets the oldest database that was set aside. Says whether there was one.
    pub(super) fn forget_aside(&self) -> io::Result<bool> {
        let Some(oldest) = self.numbered("aside-")?.first().copied() else { return Ok(false) };
        fs::remove_dir_all(self.path.join(format!("aside-{oldest:020}")))?;
        Ok(true)
    }

    /// Bytes of all files in the folder.
    pub(super) fn bytes(&self) -> u64 {
        bytes_under(&self.path)
    }

    pub(super) fn segment_bytes(&self, first: u64) -> u64 {
        bytes_under(&self.segment(first))
    }

    /// Fails when there is no room: sled should not be the one to find out.
    pub(super) fn has_room(&self) -> Result<(), StoreError> {
        let path = self.path.join("room");
        let written = File::create(&path).and_then(|mut file| {
            file.write_all(&vec![1; ROOM_BYTES])?;
            file.sync_data()
        });
        let removed = fs::remove_file(&path);
        written.and(removed).map_err(StoreError::io("no room for traces"))
    }

    pub(super) fn read_mark(&self) -> Option<Mark> {
        Mark::read(&self.path.join("mark"))
    }

    pub(super) fn write_mark(&mut self, mark: &Mark) -> Result<(), StoreError> {
        let failed = StoreError::io("cannot write the trace mark");
        if self.mark.is_none() {
            self.mark = Some(mark::Mark::file(&self.path.join("mark")).map_err(&failed)?);
        }
        let file = self.mark.as_ref().expect("just made");
        mark.write(file).map_err(failed)
    }

    /// Makes the mark survive the end of the machine.
    pub(super) fn sync_mark(&self) -> Result<(), StoreError> {
        let Some(file) = &self.mark else { return Ok(()) };
        file.sync_data().map_err(StoreError::io("cannot write the trace mark"))
    }

    /// A database is about to be opened. Says how often that was begun before without an end: a process
    /// that dies over a database must not die over it for ever.
    pub(super) fn opening(&self, first: u64) -> u32 {
        let path = self.path.join("opening");
        let text = fs::read_to_string(&path).unwrap_or_default();
        let before = text.split_once(' ').filter(|(which, _)| *which == first.to_string());
        let before = before.and_then(|(_, tries)| tries.trim().parse().ok()).unwrap_or(0_u32);
        // Without room for this little file there is none for the database either.
        let _ = fs::write(&path, format!("{first} {}\n", before.saturating_add(1)));
        before
    }

    /// It was opened, or could not be; in any case the process still lives.
    pub(super) fn opened(&self) {
        // If it stays, its count starts from there: harmless.
        let _ = fs::remove_file(self.path.join("opening"));
    }

    fn numbered(&self, prefix: &str) -> io::Result<Vec<u64>> {
        let mut numbers = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let name = entry?.file_name();
            let number = name.to_str().and_then(|name| name.strip_prefix(prefix));
            let number = number.and_then(|number| number.parse::<u64>().ok());
            numbers.extend(number.filter(|number| NUMBERS.contains(number)));
        }
        numbers.sort_unstable();
        Ok(numbers)
    }
}

/// What cannot be looked at has no bytes.
fn bytes_under(path: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(path) else { return 0 };
    let sizes = entries.flatten().map(|entry| match entry.metadata() {
        Ok(meta) if meta.is_dir() => bytes_under(&entry.path()),
        Ok(meta) => meta.len(),
        Err(_) => 0,
    });
    sizes.sum()
}
