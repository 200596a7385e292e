//! What is in the system of one engine, and the sums over it.

use std::{
    collections::BTreeMap,
    ops::{Add, Sub},
    sync::Arc,
};

use units::RequestId;

use crate::{EngineId, entry::Entry};

/// Where a request is counted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    /// A watched engine.
    Engine(EngineId),
    /// An engine that only its callers know, by the instance they name.
    Standalone(Arc<str>),
}

/// Sums over the requests in a system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Requests, whether leased, waiting or running.
    pub requests: u64,
    /// Those of them that their engine has not reported yet.
    pub leases: u64,
    /// Prompts and caps.
    pub tokens: u64,
    /// KV blocks that they may come to hold.
    pub blocks: u64,
    /// The part of `blocks` that they do not hold yet.
    pub growth: u64,
    /// Tokens still to be computed, at most.
    pub work: u64,
}

/// The entries of one place and their sums, kept equal (AD-1).
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    entries: BTreeMap<RequestId, Entry>,
    totals: Totals,
}

impl Ledger {
    pub(crate) fn totals(&self) -> Totals {
        self.totals
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn get(&self, id: RequestId) -> Option<&Entry> {
        self.entries.get(&id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (RequestId, &Entry)> {
        self.entries.iter().map(|(id, entry)| (*id, entry))
    }

    /// Adds an entry. What was counted under its id before is handed back.
    pub(crate) fn insert(&mut self, id: RequestId, entry: Entry) -> Option<Entry> {
        self.totals = self.totals + entry.totals();
        let old = self.entries.insert(id, entry)?;
        self.totals = self.totals - old.totals();
        Some(old)
    }

    pub(crate) fn remove(&mut self, id: RequestId) -> Option<Entry> {
        let entry = self.entries.remove(&id)?;
        self.totals = self.totals - entry.totals();
        Some(entry)
    }

    /// Changes an entry, if there is one.
    pub(crate) fn update(&mut self, id: RequestId, change: impl FnOnce(&mut Entry)) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        let before = entry.totals();
        change(entry);
        self.totals = self.totals + entry.totals() - before;
    }

    /// Takes out every entry that `leaves` says.
    pub(crate) fn extract(
        &mut self,
        mut leaves: impl FnMut(RequestId, &Entry) -> bool,
    ) -> Vec<(RequestId, Entry)> {
        let ids: Vec<_> =
            self.iter().filter(|(id, entry)| leaves(*id, entry)).map(|(id, _)| id).collect();
        ids.into_iter().filter_map(|id| Some((id, self.remove(id)?))).collect()
    }
}

impl Add for Totals {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self {
            requests: self.requests + other.requests,
            leases: self.leases + other.leases,
            tokens: self.tokens + other.tokens,
            blocks: self.blocks + other.blocks,
            growth: self.growth + other.growth,
            work: self.work + other.work,
        }
    }
}

impl Sub for Totals {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self {
            requests: self.requests - other.requests,
            leases: self.leases - other.leases,
            tokens: self.tokens - other.tokens,
            blocks: self.blocks - other.blocks,
            growth: self.growth - other.growth,
            work: self.work - other.work,
        }
    }
}

impl std::iter::Sum for Totals {
    fn sum<I: Iterator<Item = Self>>(totals: I) -> Self {
        totals.fold(Self::default(), Add::add)
    }
}
