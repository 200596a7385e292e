//! What the person sees: lines that stay, and one line of progress that does not.

use std::{
    io::{self, IsTerminal as _, Write as _},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// How often progress is repeated where no line can be overwritten.
const REPEAT: Duration = Duration::from_secs(5);
const PREFIX: &str = "cadence:";
/// Back to the margin, and clear to the end of the line.
const CLEAR: &str = "\r\u{1b}[K";

/// Standard output, shared. A reader that went away is ignored: the processes matter more.
#[derive(Clone)]
pub(crate) struct Console {
    terminal: bool,
    state: Arc<Mutex<Progress>>,
}

#[derive(Default)]
struct Progress {
    /// A line of progress stands on the terminal.
    shown: bool,
    /// The last progress written as a line.
    last: Option<(String, Instant)>,
}

impl Console {
    /// The console of this process.
    pub(crate) fn stdout() -> Self {
        Self { terminal: io::stdout().is_terminal(), state: Arc::default() }
    }

    /// Writes a line that stays.
    pub(crate) fn line(&self, text: &str) {
        self.write(&format!("{PREFIX} {text}\n"));
    }

    /// Writes lines that stay, as they are.
    pub(crate) fn block(&self, text: &str) {
        self.write(&format!("{text}\n"));
    }

    /// Shows what is waited for, and for how long already.
    pub(crate) fn progress(&self, what: &str, elapsed: Duration) {
        let line = format!("{PREFIX} waiting for {what} ({} s)", elapsed.as_secs());
        let mut state = self.lock();
        if self.terminal {
            put(&format!("{CLEAR}{line}"));
            state.shown = true;
            return;
        }
        let due = match &state.last {
            Some((last, at)) => last != what || at.elapsed() >= REPEAT,
            None => true,
        };
        if due {
            put(&format!("{line}\n"));
            state.last = Some((what.to_owned(), Instant::now()));
        }
    }

    fn write(&self, text: &str) {
        let mut state = self.lock();
        let clear = if std::mem::take(&mut state.shown) { CLEAR } else { "" };
        put(&format!("{clear}{text}"));
    }

    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn put(text: &str) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
