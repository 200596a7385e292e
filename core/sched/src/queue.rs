//! Requests that wait for a slot.

use std::collections::{BTreeMap, BTreeSet};

use units::Micros;

use crate::{PlanKey, Tier, seq::Sequence};

/// Waiting requests in planning order, with indices of what is asked at every step: nothing here walks the
/// whole queue.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    sequences: BTreeMap<PlanKey, Sequence>,
    /// When who ends unheard.
    deadlines: BTreeSet<(Micros, PlanKey)>,
    /// When who may join again after a preemption.
    resting: BTreeSet<(Micros, PlanKey)>,
    promised: usize,
}

impl Queue {
    pub(crate) fn insert(&mut self, sequence: Sequence) {
        let key = sequence.key;
        self.deadlines.extend(sequence.deadline.map(|deadline| (deadline, key)));
        self.resting.extend(sequence.rests_until.map(|until| (until, key)));
        self.promised += usize::from(sequence.tier == Tier::Promised);
        self.sequences.insert(key, sequence);
    }

    pub(crate) fn remove(&mut self, key: &PlanKey) -> Option<Sequence> {
        let sequence = self.sequences.remove(key)?;
        if let Some(deadline) = sequence.deadline {
            self.deadlines.remove(&(deadline, *key));
        }
        if let Some(until) = sequence.rests_until {
            self.resting.remove(&(until, *key));
        }
        self.promised -= usize::from(sequence.tier == Tier::Promised);
        Some(sequence)
    }

    /// Lets those join again who have rested.
    pub(crate) fn wake(&mut self, now: Micros) {
        while let Some(&(until, key)) = self.resting.first()
            && until <= now
        {
            self.resting.pop_first();
            let sequence = self.sequences.get_mut(&key).expect("who rests is in the queue");
            sequence.rests_until = None;
        }
    }

    /// Somebody whose deadline has passed.
    pub(crate) fn late(&self, now: Micros) -> Option<&Sequence> {
        let (_, key) = self.deadlines.first().filter(|(deadline, _)| *deadline <= now)?;
        self.sequences.get(key)
    }

    /// When the next one is late, or has rested.
    pub(crate) fn next_change(&self) -> Option<Micros> {
        let first = |index: &BTreeSet<(Micros, PlanKey)>| index.first().map(|&(at, _)| at);
        first(&self.deadlines).into_iter().chain(first(&self.resting)).min()
    }

    /// Those who may join, in planning order.
    pub(crate) fn ready(&self) -> impl Iterator<Item = &Sequence> {
        self.sequences.values().filter(|sequence| sequence.rests_until.is_none())
    }

    pub(crate) fn get(&self, key: &PlanKey) -> Option<&Sequence> {
        self.sequences.get(key)
    }

    /// All, in planning order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Sequence> {
        self.sequences.values()
    }

    pub(crate) fn len(&self) -> usize {
        self.sequences.len()
    }

    pub(crate) fn ready_len(&self) -> usize {
        self.sequences.len() - self.resting.len()
    }

    /// How many were promised at least what `tier` says: best effort cannot fill the queue against promises.
    pub(crate) fn rivals(&self, tier: Tier) -> usize {
        match tier {
            Tier::Promised => self.promised,
            Tier::BestEffort => self.len(),
        }
    }

    /// # Panics
    /// SC-10: an index does not say what the sequences say.
    pub(crate) fn check(&self) {
        let index = |at: fn(&Sequence) -> Option<Micros>| -> BTreeSet<(Micros, PlanKey)> {
            self.iter().filter_map(|it| at(it).map(|at| (at, it.key))).collect()
        };
        assert_eq!(self.deadlines, index(|it| it.deadline), "SC-10: deadlines");
        assert_eq!(self.resting, index(|it| it.rests_until), "SC-10: who rests");
        let promised = self.iter().filter(|it| it.tier == Tier::Promised).count();
        assert_eq!(self.promised, promised, "SC-10: promised");
    }
}
