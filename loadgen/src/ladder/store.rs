//! Where a ladder's cells are kept: a folder, a Parquet file for each, and nothing else that counts.
//!
//! `plan.toml` is a copy of the plan, `cells/` has the files, `logs/` what the processes of failed cells said.
//! A file appears under its name only when it is whole, so a cell either was measured or was not; what
//! a kill leaves is a journal, which the next try removes.

use std::{
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail, ensure};

use super::cell;
use crate::{
    console,
    record::{self, Machine, Origin, Run},
};

/// A folder that is ours until we end.
pub(crate) struct Store {
    folder: PathBuf,
    /// The folder itself is what is locked: nothing is left of it, however we end.
    _lock: File,
}

/// What is known of a cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It was not measured.
    Missing,
    /// It was, and says something.
    Done,
    /// So many attempts came to nothing.
    Spoiled(u32),
}

impl Store {
    /// Opens or makes a folder and keeps the text of the plan in it.
    ///
    /// # Errors
    /// Another process has it, or it cannot be written.
    pub(crate) fn open(folder: &Path, plan: &str) -> anyhow::Result<Self> {
        let cannot = || format!("cannot write into {}", folder.display());
        fs::create_dir_all(folder.join("cells")).with_context(cannot)?;
        let lock = File::open(folder).with_context(cannot)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                bail!("another ladder is being measured in {}", folder.display())
            }
            Err(TryLockError::Error(error)) => return Err(error).with_context(cannot),
        }
        let store = Self { folder: folder.to_owned(), _lock: lock };
        if store.files()?.is_empty() {
            fs::write(folder.join("plan.toml"), plan).with_context(cannot)?;
        }
        Ok(store)
    }

    /// Whether what is there was measured by the same plan and on the same things.
    ///
    /// # Errors
    /// It was not: cells of two ladders must not be mixed.
    pub(crate) fn check(
        &self,
        plan: &str,
        origin: &Origin,
        machine: &Machine,
    ) -> anyhow::Result<()> {
        let folder = self.folder.display();
        for path in self.files()? {
            // What cannot be read is measured again.
            let Ok(from) = record::load_provenance(&path) else { continue };
            let Some(cell) = from.cell else { bail!("{} is no cell of a ladder", path.display()) };
            ensure!(
                cell.plan == plan,
                "{folder} has cells of another plan, which is in its plan.toml: measure into another folder"
            );
            if let Some(difference) = origin.differs(&cell.origin) {
                bail!(
                    "cells in {folder} were measured on something else ({difference}): measure into another folder"
                );
            }
            ensure!(
                from.machine == *machine,
                "cells in {folder} were measured on another machine: measure into another folder"
            );
        }
        Ok(())
    }

    /// What is known of the cell of this name.
    pub(crate) fn state(&self, name: &str) -> State {
        let path = self.path(name);
        if !path.exists() {
            return State::Missing;
        }
        match record::load_provenance(&path) {
            Ok(from) => match from.cell {
                Some(cell) if cell.failed.is_some() || cell.invalid.is_some() => {
                    State::Spoiled(cell.attempt)
                }
                Some(_) => State::Done,
                None => State::Missing,
            },
            Err(error) => {
                console::note(&format!("{error:#}: it is measured again"));
                State::Missing
            }
        }
    }

    /// Where the cell of this name is, or will be.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join("cells").join(format!("{name}.parquet"))
    }

    /// A place for the journal of a cell: what an earlier try left there is gone.
    ///
    /// # Errors
    /// It cannot be removed.
    pub(crate) fn journal(&self, name: &str) -> anyhow::Result<PathBuf> {
        let path = record::journal_path(&self.path(name));
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("cannot write {}", path.display()))
            }
            Ok(()) | Err(_) => Ok(path),
        }
    }

    /// An empty folder for the logs of a cell.
    ///
    /// # Errors
    /// It cannot be made.
    pub(crate) fn logs(&self, name: &str) -> anyhow::Result<PathBuf> {
        let path = self.folder.join("logs").join(name);
        let cannot = || format!("cannot write {}", path.display());
        if path.exists() {
            fs::remove_dir_all(&path).with_context(cannot)?;
        }
        fs::create_dir_all(&path).with_context(cannot)?;
        Ok(path)
    }

    /// Keeps a cell, in the place of an earlier try. Its journal goes, and its logs unless it failed.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn put(&self, name: &str, run: &Run) -> anyhow::Result<()> {
        record::store(run, &self.path(name))?;
        let _ = fs::remove_file(record::journal_path(&self.path(name)));
        let has_failed = run.provenance.cell.as_ref().is_some_and(|cell| cell.failed.is_some());
        if !has_failed {
            self.forget_logs(name);
        }
        Ok(())
    }

    /// Leaves nothing of a cell that was begun and came to nothing.
    ///
    /// # Errors
    /// It cannot be removed.
    pub(crate) fn forget(&self, name: &str) -> anyhow::Result<()> {
        self.forget_logs(name);
        self.journal(name).map(drop)
    }

    fn forget_logs(&self, name: &str) {
        let logs = self.folder.join("logs");
        // Nothing depends on it; the outer folder goes with the last of them.
        let _ = fs::remove_dir_all(logs.join(name));
        let _ = fs::remove_dir(logs);
    }

    fn files(&self) -> anyhow::Result<Vec<PathBuf>> {
        cell::files(&self.folder)
    }
}
