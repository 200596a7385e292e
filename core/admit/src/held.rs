//! Requests that wait for room.
//!
//! They are let in strictly in order: higher priority first, then the earlier deadline, then the
//! earlier arrival. A request that does not fit keeps everybody behind it from its engines, so a
//! large one is not starved by small ones that slip past; the room that this leaves unused is given
//! back after at most its patience.

use std::{cmp::Reverse, collections::BTreeMap, ops::Bound};

use units::{Micros, Span};

use crate::{Budget, Offer};

/// Place in the queue. Lower is earlier; no two are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    pub(crate) priority: Reverse<i32>,
    pub(crate) deadline: Micros,
    pub(crate) arrival: u64,
}

/// A held request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Held {
    pub(crate) offer: Offer,
    /// The budget in force, defaults filled in, at `offered_at`.
    pub(crate) budget: Budget,
    /// How long it will wait at most.
    pub(crate) patience: Span,
    pub(crate) offered_at: Micros,
    /// When it will wait no longer.
    pub(crate) until: Micros,
    /// Machine time that it asks for, in microseconds, as far as it was known when it came.
    pub(crate) cost_us: f64,
}

/// The queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct Queue(BTreeMap<Rank, Held>);

impl Queue {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn insert(&mut self, rank: Rank, held: Held) {
        self.0.insert(rank, held);
    }

    pub(crate) fn remove(&mut self, rank: Rank) -> Option<Held> {
        self.0.remove(&rank)
    }

    pub(crate) fn get(&self, rank: Rank) -> Option<&Held> {
        self.0.get(&rank)
    }

    pub(crate) fn get_mut(&mut self, rank: Rank) -> Option<&mut Held> {
        self.0.get_mut(&rank)
    }

    /// The first in line behind `rank`, or at all.
    pub(crate) fn next(&self, behind: Option<Rank>) -> Option<Rank> {
        let from = behind.map_or(Bound::Unbounded, Bound::Excluded);
        self.0.range((from, Bound::Unbounded)).next().map(|(rank, _)| *rank)
    }

    /// Those in line before `rank`.
    pub(crate) fn ahead_of(&self, rank: Rank) -> impl Iterator<Item = &Held> {
        self.0.range(..rank).map(|(_, held)| held)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Rank, &Held)> {
        self.0.iter().map(|(rank, held)| (*rank, held))
    }
}
