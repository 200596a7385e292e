//! Where a run writes, and whether it may: known before the first request.

use std::{
    fs::{self, File},
    io,
    path::Path,
};

use anyhow::Context as _;

/// Nothing is written over that nobody said to write over, and no file takes the place of a folder or a
/// device. An old result goes when the new one is whole.
///
/// # Errors
/// One of the outputs is in the way, is named twice, or cannot be written.
pub(crate) fn make_way(
    out: &Path,
    journal: &Path,
    summaries: &[&Path],
    overwrite: bool,
) -> anyhow::Result<()> {
    let all: Vec<_> = [out, journal].into_iter().chain(summaries.iter().copied()).collect();
    for (nth, path) in all.iter().enumerate() {
        let twice = all[..nth].contains(path);
        anyhow::ensure!(!twice, "{} is named for two outputs", path.display());
    }
    for path in [out, journal] {
        // A rename puts the new file where the old one is, whatever that is: /dev/null would be gone.
        let Some(is_file) = is_file(path)? else { continue };
        anyhow::ensure!(is_file, "{} exists and is no regular file", path.display());
        may_write_over(path, overwrite)?;
    }
    for path in summaries {
        try_writing(path, overwrite)?;
    }
    if fs::exists(journal)? {
        fs::remove_file(journal).with_context(|| format!("cannot write {}", journal.display()))?;
    }
    Ok(())
}

/// Absent where there is nothing.
fn is_file(path: &Path) -> anyhow::Result<Option<bool>> {
    match fs::symlink_metadata(path) {
        Ok(found) => Ok(Some(found.is_file())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot write {}", path.display())),
    }
}

fn may_write_over(path: &Path, overwrite: bool) -> anyhow::Result<()> {
    anyhow::ensure!(overwrite, "{} exists: say --overwrite, or another name", path.display());
    Ok(())
}

/// Summaries may go into a pipe or a device, which are written to where they are.
fn try_writing(path: &Path, overwrite: bool) -> anyhow::Result<()> {
    let cannot = || format!("cannot write {}", path.display());
    let found = fs::metadata(path).ok();
    let is_new = found.is_none();
    if found.as_ref().is_some_and(fs::Metadata::is_file) {
        may_write_over(path, overwrite)?;
    } else if found.is_some_and(|found| !found.is_dir()) {
        // Its reader would take this for all that comes.
        return Ok(());
    }
    File::options().append(true).create(true).open(path).with_context(cannot)?;
    if is_new {
        // It was only to be seen whether it can be made.
        fs::remove_file(path).with_context(cannot)?;
    }
    Ok(())
}

/// Writes a summary.
///
/// # Errors
/// The disk refuses it.
pub(crate) fn write_json(path: &Path, value: &serde_json::Value) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(value)? + "\n";
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::{os::unix::fs::symlink, path::PathBuf};

    use super::*;

    fn way(folder: &Path, out: &str, summary: &str, overwrite: bool) -> Result<(), String> {
        let [out, journal, summary]: [PathBuf; 3] =
            [out, "journal", summary].map(|name| folder.join(name));
        make_way(&out, &journal, &[&summary], overwrite).map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn only_files_are_written_over() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        fs::create_dir(folder.join("folder")).unwrap();
        symlink("/dev/null", folder.join("link")).unwrap();
        fs::write(folder.join("file"), "old").unwrap();
        for no_file in ["folder", "link"] {
            let refused = way(folder, no_file, "new", true).unwrap_err();
            assert!(refused.contains("no regular file"), "{refused}");
        }
        assert!(way(folder, "file", "new", false).unwrap_err().contains("--overwrite"));
        assert_eq!(way(folder, "file", "new", true), Ok(()));
        assert_eq!(fs::read_to_string(folder.join("file")).unwrap(), "old");
    }

    #[test]
    fn summaries_are_tried_before_the_run() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        fs::write(folder.join("old"), "old").unwrap();
        assert!(way(folder, "run", "missing/new", true).is_err());
        assert!(way(folder, "run", ".", true).is_err());
        assert!(way(folder, "run", "old", false).unwrap_err().contains("--overwrite"));
        assert_eq!(way(folder, "run", "old", true), Ok(()));
        assert_eq!(fs::read_to_string(folder.join("old")).unwrap(), "old");
        assert_eq!(way(folder, "run", "/dev/null", false), Ok(()));
        assert_eq!(way(folder, "run", "new", false), Ok(()));
        assert_eq!(folder.read_dir().unwrap().count(), 1, "nothing is left of trying");
    }

    #[test]
    fn no_output_is_named_twice() {
        let folder = tempfile::tempdir().unwrap();
        for twice in ["run", "journal"] {
            let refused = way(folder.path(), "run", twice, true).unwrap_err();
            assert!(refused.contains("two outputs"), "{refused}");
        }
    }
}
