//! What people see: results on standard output, everything else beside it.

use std::io::{self, IsTerminal as _, Write as _};

/// Writes to standard output. Somebody who does not want to hear it, as `| head` does, is no error.
pub(crate) fn say(text: &str) {
    let _ = writeln!(io::stdout().lock(), "{text}");
}

/// Writes a line beside the results.
pub(crate) fn note(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// A line that replaces itself on a terminal.
pub(crate) struct Status {
    is_terminal: bool,
    is_shown: bool,
}

impl Status {
    pub(crate) fn new() -> Self {
        Self { is_terminal: io::stderr().is_terminal(), is_shown: false }
    }

    /// Whether lines replace each other.
    pub(crate) const fn is_live(&self) -> bool {
        self.is_terminal
    }

    pub(crate) fn show(&mut self, line: &str) {
        if self.is_terminal {
            // Back to the first column, and clear to the right.
            let _ = write!(io::stderr().lock(), "\r\x1b[K{line}");
            self.is_shown = true;
        } else {
            note(line);
        }
    }

    /// Leaves the last line where it is.
    pub(crate) fn end(&mut self) {
        if std::mem::take(&mut self.is_shown) {
            note("");
        }
    }
}
