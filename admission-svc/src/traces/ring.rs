//! The latest rows, in memory.

use std::collections::VecDeque;

use proto::v1::TraceRow;

use super::{Facts, Page, StoreError, TraceStore};

/// The latest rows, in memory. Older ones are dropped.
#[derive(Debug)]
pub struct Ring {
    rows: VecDeque<TraceRow>,
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
    fn ready(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    fn append(&mut self, rows: Vec<TraceRow>) -> Result<(), StoreError> {
        for row in rows {
            self.appended += 1;
            self.rows.push_back(TraceRow { number: self.appended, ..row });
        }
        let excess = self.rows.len().saturating_sub(self.capacity);
        self.rows.drain(..excess);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    fn page(&mut self, after: u64, limit: usize) -> Result<Page, StoreError> {
        let dropped = self.appended - self.rows.len() as u64;
        let skip = usize::try_from(after.saturating_sub(dropped)).unwrap_or(usize::MAX);
        let rows: Vec<_> = self.rows.iter().skip(skip).take(limit).cloned().collect();
        let next = rows.last().map(|row| row.number).filter(|last| *last < self.appended);
        Ok(Page { rows, next, skipped: 0 })
    }

    fn facts(&self) -> Facts {
        Facts { numbered: self.appended, ..Facts::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(count: usize) -> Vec<TraceRow> {
        vec![TraceRow::default(); count]
    }

    #[test]
    fn numbers_go_on_when_old_rows_are_dropped() {
        let mut ring = Ring::new(3);
        ring.append(rows(2)).expect("memory");
        ring.append(rows(3)).expect("memory");
        let mut numbers = |after, limit| {
            let page = ring.page(after, limit).expect("memory");
            (page.rows.iter().map(|row| row.number).collect::<Vec<_>>(), page.next)
        };
        assert_eq!(numbers(0, 9), (vec![3, 4, 5], None));
        assert_eq!(numbers(3, 1), (vec![4], Some(4)));
        assert_eq!(numbers(5, 9), (vec![], None));
        assert_eq!(numbers(u64::MAX, 9), (vec![], None));
    }

    #[test]
    fn a_ring_of_none_still_numbers() {
        let mut ring = Ring::new(0);
        ring.append(rows(2)).expect("memory");
        assert_eq!(ring.facts().numbered, 2);
        assert_eq!(ring.page(0, 9), Ok(Page::default()));
    }
}
