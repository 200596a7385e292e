//! The invariants, checked from outside the hot path.

use std::collections::BTreeSet;

use crate::{Phase, Scheduler, seq::Sequence};

impl Scheduler {
    /// Checks what must hold between any two calls.
    ///
    /// # Panics
    /// - SC-5: a slot is not in exactly one of the free list and one running sequence.
    /// - SC-6: a waiting sequence has a seat, or a running one has none.
    /// - SC-7: the index does not name every sequence, once, where it is.
    /// - SC-10: an index of the queue does not say what its sequences say.
    /// - SC-11: the engine does not keep a prefix for each owner of the cache's.
    /// - Whatever [`kv::KvCore::check`] says.
    pub fn check(&self) {
        let seats = self.running.values().filter_map(|sequence| sequence.seat.as_ref());
        let leases: Vec<&kv::Lease> = seats.clone().map(|seat| &seat.lease).collect();
        self.cache.check(&leases, &[]);
        let owners = self.cache.counters().owners;
        assert_eq!(self.moves.keeping() as u64, owners, "SC-11: owners");

        let mut slots = BTreeSet::new();
        for slot in self.free_slots.iter().copied().chain(seats.map(|seat| seat.slot)) {
            assert!(slots.insert(slot), "SC-5: {slot:?} twice");
        }
        assert_eq!(slots.len(), self.limits.slots as usize, "SC-5: slots lost");

        let waits = |sequence: &Sequence| sequence.phase() == Phase::Waiting;
        assert!(self.queue.iter().all(waits), "SC-6: a waiting sequence has a seat");
        assert!(!self.running.values().any(waits), "SC-6: a running sequence has none");

        for sequence in self.queue.iter().chain(self.running.values()) {
            assert_eq!(self.keys.get(&sequence.id), Some(&sequence.key), "SC-7");
        }
        assert!(self.queue.iter().all(|it| self.queue.get(&it.key).is_some()), "SC-7");
        assert!(self.running.iter().all(|(key, it)| *key == it.key), "SC-7");
        assert_eq!(self.keys.len(), self.queue.len() + self.running.len(), "SC-7");
        self.queue.check();
    }
}
