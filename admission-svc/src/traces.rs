//! Closed decisions, kept for whoever wants to learn from them.

use std::{collections::VecDeque, sync::Arc};

use admit::Trace;

/// A place where rows are kept in order, numbered from 1.
pub trait TraceStore: Send {
    /// Keeps a row and says its number.
    fn append(&mut self, trace: Trace) -> u64;
    /// At most `limit` kept rows with a number above `after`, oldest first.
    fn after(&self, after: u64, limit: usize) -> Vec<(u64, Arc<Trace>)>;
}

/// The latest rows, in memory. Older ones are dropped.
#[derive(Debug)]
pub struct Ring {
    rows: VecDeque<Arc<Trace>>,
    capacity: usize,
    /// Rows ever appended; the number of the latest.
    appended: u64,
}

impl Ring {
    /// Keeps at most `capacity` rows; none is allowed.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self { rows: VecDeque::new(), capacity, appended: 0 }
    }
}

impl TraceStore for Ring {
    fn append(&mut self, trace: Trace) -> u64 {
        self.appended += 1;
        self.rows.push_back(Arc::new(trace));
        if self.rows.len() > self.capacity {
            self.rows.pop_front();
        }
        self.appended
    }

    fn after(&self, after: u64, limit: usize) -> Vec<(u64, Arc<Trace>)> {
        let dropped = self.appended - self.rows.len() as u64;
        let skip = usize::try_from(after.saturating_sub(dropped)).unwrap_or(usize::MAX);
        let rows = self.rows.iter().zip(dropped + 1..).skip(skip).take(limit);
        rows.map(|(trace, number)| (number, Arc::clone(trace))).collect()
    }
}

#[cfg(test)]
mod tests {
    use admit::{Attempt, Budget, Outcome, Saw, Totals};
    use units::{Micros, RequestId, Span, TokenCount};

    use super::*;

    fn trace(id: u128) -> Trace {
        Trace {
            attempt: Attempt { id: RequestId(id), number: 0 },
            offered_at: Micros(0),
            saw: Saw {
                instance: "".into(),
                prompt: TokenCount(1),
                cached: TokenCount(0),
                max_tokens: TokenCount(1),
                budget: Budget::default(),
                in_system: Totals::default(),
            },
            verdict: None,
            held: Span::ZERO,
            outcome: Outcome::Censored,
        }
    }

    #[test]
    fn numbers_go_on_when_old_rows_are_dropped() {
        let mut ring = Ring::new(3);
        for id in 0..5 {
            ring.append(trace(id));
        }
        let numbers =
            |after, limit| ring.after(after, limit).iter().map(|(it, _)| *it).collect::<Vec<_>>();
        assert_eq!(numbers(0, 9), [3, 4, 5]);
        assert_eq!(numbers(3, 1), [4]);
        assert_eq!(numbers(5, 9), Vec::<u64>::new());
        assert_eq!(numbers(u64::MAX, 9), Vec::<u64>::new());
        assert_eq!(ring.after(0, 1)[0].1.attempt.id, RequestId(2));
    }

    #[test]
    fn a_ring_of_none_still_numbers() {
        let mut ring = Ring::new(0);
        assert_eq!([ring.append(trace(0)), ring.append(trace(1))], [1, 2]);
        assert!(ring.after(0, 9).is_empty());
    }
}
