//! What happens next.
//!
//! Events are ordered by time, then by rank, then by the order in which they were put down. So the same
//! events happen in the same order in every run.

use std::{cmp::Ordering, collections::BinaryHeap};

use units::Micros;

/// What goes first of what happens at one time. Lower goes first.
pub(crate) trait Ranked {
    /// The rank of an event.
    fn rank(&self) -> u8;
}

/// Events that are still to come.
#[derive(Debug)]
pub(crate) struct Agenda<E> {
    heap: BinaryHeap<Entry<E>>,
    next: u64,
}

#[derive(Debug)]
struct Entry<E> {
    at: Micros,
    rank: u8,
    number: u64,
    event: E,
}

impl<E: Ranked> Agenda<E> {
    pub(crate) fn new() -> Self {
        Self { heap: BinaryHeap::new(), next: 0 }
    }

    /// Puts an event down.
    pub(crate) fn put(&mut self, at: Micros, event: E) {
        let number = self.next;
        self.next += 1;
        self.heap.push(Entry { at, rank: event.rank(), number, event });
    }

    /// Takes the next one.
    pub(crate) fn pop(&mut self) -> Option<(Micros, E)> {
        self.heap.pop().map(|entry| (entry.at, entry.event))
    }
}

impl<E> Entry<E> {
    fn key(&self) -> (Micros, u8, u64) {
        (self.at, self.rank, self.number)
    }
}

/// The heap gives its greatest first: whoever is earlier is greater.
impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        other.key().cmp(&self.key())
    }
}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<E> Eq for Entry<E> {}

#[cfg(test)]
mod tests {
    use super::*;

    impl Ranked for (u8, char) {
        fn rank(&self) -> u8 {
            self.0
        }
    }

    #[test]
    fn time_then_rank_then_order_of_arrival() {
        let mut agenda = Agenda::new();
        for (at, rank, name) in [(5, 1, 'd'), (5, 0, 'b'), (5, 0, 'c'), (1, 9, 'a'), (5, 1, 'e')] {
            agenda.put(Micros(at), (rank, name));
        }
        let order: String =
            std::iter::from_fn(|| agenda.pop()).map(|(_, (_, name))| name).collect();
        assert_eq!(order, "abcde");
    }
}
