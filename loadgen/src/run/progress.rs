//! How a run is going, for people.

use std::time::{Duration, Instant};

use units::Span;

use crate::{console::Status, record::Row, wire::Class};

const LIVE: Duration = Duration::from_millis(250);
const PLAIN: Duration = Duration::from_secs(10);

/// Counts, and when they were last shown.
pub(super) struct Progress {
    /// What every line begins with.
    heading: String,
    status: Status,
    shown: Instant,
    duration: Span,
    ended: u64,
    ok: u64,
    shed: u64,
    slip: Span,
    /// Of answers since the last line.
    recent: Vec<Span>,
}

impl Progress {
    pub(super) fn new(heading: String, duration: Span) -> Self {
        Self {
            heading,
            status: Status::new(),
            shown: Instant::now(),
            duration,
            ended: 0,
            ok: 0,
            shed: 0,
            slip: Span::ZERO,
            recent: Vec::new(),
        }
    }

    /// Counts a request that ended.
    pub(super) fn count(&mut self, row: &Row) {
        self.ended += 1;
        self.slip = self.slip.max(row.slip());
        if row.class == Class::Ok {
            self.ok += 1;
            self.recent.push(row.e2e());
        } else if row.class == Class::Shed {
            self.shed += 1;
        }
    }

    /// Shows a line if it is time for one.
    pub(super) fn show(&mut self, at: Span, started: u64) {
        let every = if self.status.is_live() { LIVE } else { PLAIN };
        if self.shown.elapsed() < every {
            return;
        }
        self.shown = Instant::now();
        self.recent.sort_unstable();
        let median = self.recent.get(self.recent.len() / 2);
        let median = median.map_or("-".into(), |span| format!("{:.2} s", span.as_secs_f64()));
        self.recent.clear();
        let failed = self.ended - self.ok - self.shed;
        self.status.show(&format!(
            "{}{:.0}/{:.0} s  sent {started}  in flight {}  ok {}  shed {}  failed {failed}  \
             e2e p50 {median}  slip {:.1} ms",
            self.heading,
            at.as_secs_f64(),
            self.duration.as_secs_f64(),
            started.saturating_sub(self.ended),
            self.ok,
            self.shed,
            self.slip.as_secs_f64() * 1e3,
        ));
    }

    pub(super) fn end(&mut self) {
        self.status.end();
    }
}
