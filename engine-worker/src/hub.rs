//! What the step loop publishes: numbered records in a bounded ring, and the latest snapshot.
//!
//! Records are never coalesced: a watcher reads on from where it stopped, or learns that the ring no
//! longer reaches back that far. Snapshots are: only the latest exists.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

use sched::{Event, Snapshot};
use tokio::sync::watch;
use units::{Micros, Span};

use crate::prefixes::Prefixes;

/// One numbered event. Tokens are not recorded: they are the answer, not the life of a request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Record {
    pub(crate) number: u64,
    pub(crate) at: Micros,
    pub(crate) event: Event,
}

/// The state at one moment of the loop.
#[derive(Clone, Debug)]
pub(crate) struct Published {
    /// When, on the engine's clock. The loop is alive as of then.
    pub(crate) at: Micros,
    /// The predicted time of the step that began then, if one did.
    pub(crate) step: Span,
    /// The last record that the snapshot includes.
    pub(crate) record: u64,
    pub(crate) snapshot: Snapshot,
}

/// However short a step was predicted to be, the loop may be silent for this long. An oversubscribed
/// machine makes steps of milliseconds take seconds.
const SILENCE_MIN: Span = Span::from_secs(10);
/// How many times its predicted duration a step may take.
const OVERRUN_MAX: u64 = 20;

impl Published {
    /// Whether the loop is overdue at `now`: silent for far longer than its step was predicted to take.
    pub(crate) fn is_stuck(&self, now: Micros) -> bool {
        now.since(self.at) > silence_max(self.step)
    }
}

/// How long the loop may be silent while it runs a step that was predicted to take `step`.
fn silence_max(step: Span) -> Span {
    Span(step.0.saturating_mul(OVERRUN_MAX)).max(SILENCE_MIN)
}

/// Where the step loop leaves what happened and watchers find it.
#[derive(Debug)]
pub(crate) struct Hub {
    /// Which prefixes are kept.
    pub(crate) prefixes: Prefixes,
    ring: Mutex<Ring>,
    latest: watch::Sender<Published>,
}

impl Hub {
    /// A hub with an idle engine's snapshot and room for `records` records.
    pub(crate) fn new(now: Micros, snapshot: Snapshot, records: usize) -> Self {
        let ring = Ring { records: VecDeque::new(), room: records.max(1), last: 0 };
        let (latest, _) =
            watch::channel(Published { at: now, step: Span::ZERO, record: 0, snapshot });
        Self { prefixes: Prefixes::default(), ring: Mutex::new(ring), latest }
    }

    /// Takes what happened, and how long the step that begins now should take. Never waits for a watcher.
    pub(crate) fn publish(&self, now: Micros, step: Span, events: &[Event], snapshot: Snapshot) {
        let record = {
            let mut ring = self.ring();
            for event in events.iter().filter(|event| is_recorded(event)) {
                ring.push(now, event.clone());
            }
            ring.last
        };
        self.latest.send_replace(Published { at: now, step, record, snapshot });
    }

    /// Follows the latest snapshot.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Published> {
        self.latest.subscribe()
    }

    /// The latest snapshot.
    pub(crate) fn latest(&self) -> Published {
        self.latest.borrow().clone()
    }

    /// At most `most` records after number `after`, or `None` if some of them are gone.
    pub(crate) fn after(&self, after: u64, most: usize) -> Option<Vec<Record>> {
        self.ring().after(after, most)
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        // Every critical section leaves the ring whole, so a panic elsewhere spoils nothing.
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A token is said 20 times a second by every sequence and tells nothing that the step record does not;
/// the first one is the exception.
fn is_recorded(event: &Event) -> bool {
    match event {
        Event::Token { first, .. } => *first,
        Event::Refused { .. } => false,
        Event::Accepted { .. }
        | Event::Started { .. }
        | Event::Finished { .. }
        | Event::Step(_) => true,
    }
}

#[derive(Debug)]
struct Ring {
    records: VecDeque<Record>,
    room: usize,
    last: u64,
}

impl Ring {
    fn push(&mut self, at: Micros, event: Event) {
        if self.records.len() == self.room {
            self.records.pop_front();
        }
        self.last += 1;
        self.records.push_back(Record { number: self.last, at, event });
    }

    fn after(&self, after: u64, most: usize) -> Option<Vec<Record>> {
        let first = self.last + 1 - self.records.len() as u64;
        if after > self.last || after.saturating_add(1) < first {
            return None;
        }
        let skip = usize::try_from(after + 1 - first).expect("below the ring's length");
        Some(self.records.iter().skip(skip).take(most).cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::RequestId;

    fn numbers(ring: &Ring, after: u64, most: usize) -> Option<Vec<u64>> {
        let records = ring.after(after, most)?;
        Some(records.iter().map(|record| record.number).collect())
    }

    #[test]
    fn a_slow_step_is_not_stuck() {
        for (step_ms, silence_max_s) in
            [(0, 10), (5, 10), (500, 10), (3_000, 60), (u64::MAX, u64::MAX)]
        {
            let allowed = silence_max(Span::from_millis(step_ms));
            assert_eq!(allowed, Span::from_secs(silence_max_s), "predicted {step_ms} ms");
        }
    }

    #[test]
    fn a_watcher_reads_on_or_learns_that_it_cannot() {
        let mut ring = Ring { records: VecDeque::new(), room: 3, last: 0 };
        assert_eq!(numbers(&ring, 0, 9), Some(vec![]));
        for id in 0..5 {
            ring.push(Micros(id), Event::Started { id: RequestId(id.into()), cached_tokens: 0 });
        }
        assert_eq!(numbers(&ring, 2, 9), Some(vec![3, 4, 5]));
        assert_eq!(numbers(&ring, 2, 1), Some(vec![3]));
        assert_eq!(numbers(&ring, 5, 9), Some(vec![]));
        assert_eq!(numbers(&ring, 1, 9), None, "2 is gone");
        assert_eq!(numbers(&ring, 6, 9), None, "of another engine's life");
        assert_eq!(numbers(&ring, u64::MAX, 9), None);
    }
}
