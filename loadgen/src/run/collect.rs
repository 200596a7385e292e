//! The thread that writes rows down as they come.

use std::{
    sync::{
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    time::{Duration, Instant},
};

use units::Span;

use super::progress::Progress;
use crate::{clock::Clock, console, record::Journal, record::Row};

const FLUSH: Duration = Duration::from_millis(250);

/// Writes every row until nobody can send any more, and gives the journal back.
pub(super) fn collect(
    rows: &mpsc::Receiver<Row>,
    mut journal: Journal,
    mut progress: Progress,
    started: &AtomicU64,
    clock: &Clock,
) -> Journal {
    let mut has_told = false;
    let mut flushed = Instant::now();
    loop {
        match rows.recv_timeout(FLUSH) {
            Ok(row) => {
                progress.count(&row);
                journal.append(row);
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
        }
        if flushed.elapsed() >= FLUSH {
            journal.flush();
            flushed = Instant::now();
        }
        if let Some(error) = journal.refused()
            && !std::mem::replace(&mut has_told, true)
        {
            console::note(&format!("the journal cannot be written, rows stay in memory: {error}"));
        }
        progress.show(Span(clock.now().0), started.load(Ordering::Relaxed));
    }
    journal.flush();
    progress.end();
    journal
}
