//! One process's log: a file that the process writes to directly, so that it outlives us, kept short
//! from outside.
//!
//! At most two files: `NAME.log`, and `NAME.log.1` with what came before. A start moves the last run's
//! log aside; a log that outgrows the limit is copied aside and cut to nothing, which is safe because
//! writers append. Lines written between copy and cut are lost.

use std::{
    fs::{self, File},
    io::{self, Read as _, Seek as _, SeekFrom},
    path::{Path, PathBuf},
};

/// How long a log may grow, in bytes, as far as a look a second can tell.
const BYTES_MAX: u64 = 16 << 20;
/// Last words are read from this much of the end, in bytes.
const TAIL_BYTES: u64 = 16 << 10;
/// Longer lines are cut, in characters.
const LINE_CHARS_MAX: usize = 400;

/// The log of one process.
#[derive(Debug)]
pub(crate) struct Log {
    path: PathBuf,
    bytes_max: u64,
    /// Where the running process began to write.
    begin: u64,
}

impl Log {
    /// Starts an empty log for `name` in `dir` and keeps the one before.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub(crate) fn create(dir: &Path, name: &str) -> io::Result<Self> {
        let log = Self { path: dir.join(format!("{name}.log")), bytes_max: BYTES_MAX, begin: 0 };
        match fs::rename(&log.path, log.older()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        log.open()?;
        Ok(log)
    }

    /// A handle for the next process to write to.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn next_writer(&mut self) -> io::Result<File> {
        let file = self.open()?;
        self.begin = file.metadata()?.len();
        Ok(file)
    }

    /// Cuts the log if it has outgrown its limit.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub(crate) fn trim(&mut self) -> io::Result<()> {
        let mut file = File::options().read(true).write(true).open(&self.path)?;
        let length = file.metadata()?.len();
        if length <= self.bytes_max {
            return Ok(());
        }
        file.seek(SeekFrom::Start(length - self.bytes_max))?;
        io::copy(&mut (&file).take(self.bytes_max), &mut File::create(self.older())?)?;
        self.begin = 0;
        file.set_len(0)
    }

    /// The last `count` lines of the process that runs or ran last, fit for a terminal.
    pub(crate) fn tail(&self, count: usize) -> Vec<String> {
        // Without the log there are no last words, and that is no reason to fail.
        let text = self.read_tail().unwrap_or_default();
        let lines: Vec<_> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        lines[lines.len().saturating_sub(count)..].iter().map(|line| printable(line)).collect()
    }

    fn read_tail(&self) -> io::Result<String> {
        let mut file = File::open(&self.path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES).max(self.begin)))?;
        let mut bytes = Vec::new();
        file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn open(&self) -> io::Result<File> {
        File::options().create(true).append(true).open(&self.path)
    }

    fn older(&self) -> PathBuf {
        self.path.with_extension("log.1")
    }
}

/// Without the bytes that move cursors and change colours.
fn printable(line: &str) -> String {
    let mut text = String::new();
    let mut chars = line.trim_end().chars();
    while let Some(c) = chars.next() {
        if c == '\u{1b}' {
            // An escape sequence ends with a letter.
            chars.by_ref().find(char::is_ascii_alphabetic);
        } else if !c.is_control() || c == '\t' {
            text.push(c);
        }
    }
    text.chars().take(LINE_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn log(dir: &Path) -> Log {
        Log { bytes_max: 10, ..Log::create(dir, "a").expect("a log") }
    }

    fn text(dir: &Path, name: &str) -> String {
        fs::read_to_string(dir.join(name)).expect("a file")
    }

    #[test]
    fn a_start_keeps_the_log_before() {
        let dir = tempfile::tempdir().expect("a folder");
        for run in ["first", "second", "third"] {
            let mut log = log(dir.path());
            write!(log.next_writer().expect("a file"), "{run}").expect("written");
        }
        assert_eq!(text(dir.path(), "a.log"), "third");
        assert_eq!(text(dir.path(), "a.log.1"), "second");
        assert_eq!(fs::read_dir(dir.path()).expect("a folder").count(), 2);
    }

    #[test]
    fn a_log_that_outgrows_its_limit_is_cut_under_its_writer() {
        let dir = tempfile::tempdir().expect("a folder");
        let mut log = log(dir.path());
        let mut writer = log.next_writer().expect("a file");
        writer.write_all(b"0123456789").expect("written");
        log.trim().expect("trimmed");
        assert_eq!(text(dir.path(), "a.log"), "0123456789", "at the limit, not over it");
        writer.write_all(b"abc").expect("written");
        log.trim().expect("trimmed");
        writer.write_all(b"new").expect("written");
        assert_eq!(text(dir.path(), "a.log"), "new");
        assert_eq!(text(dir.path(), "a.log.1"), "3456789abc");
    }

    #[test]
    fn last_words_are_those_of_the_last_process() {
        let dir = tempfile::tempdir().expect("a folder");
        let mut log = log(dir.path());
        log.next_writer().expect("a file").write_all(b"old\n").expect("written");
        assert_eq!(log.tail(2), ["old"]);
        let mut writer = log.next_writer().expect("a file");
        assert!(log.tail(2).is_empty());
        writer.write_all(b"one\ntwo\n\nthr\xffee\n").expect("written");
        assert_eq!(log.tail(2), ["two", "thr\u{fffd}ee"]);
    }

    #[test]
    fn terminals_are_left_alone() {
        assert_eq!(printable("\u{1b}[31mred\u{1b}[0m\u{7} \r"), "red");
        assert_eq!(printable(&"x".repeat(1000)).len(), LINE_CHARS_MAX);
    }
}
