//! Static batches: who runs together, from the first who joins to the last who ends.

use std::collections::{BTreeMap, BTreeSet};

use units::{Micros, RequestId, Span};

use crate::{Discipline, Limits, PlanKey, queue::Queue, seq::Sequence};

/// The members of the batch that runs: nobody else may join until all of them have ended. Those whose
/// prompts do not fit into its first step take their seats in the next ones.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    members: BTreeSet<RequestId>,
}

impl Batch {
    /// Begins a batch if none runs and it is time.
    pub(crate) fn begin(&mut self, now: Micros, limits: &Limits, queue: &Queue) {
        let Discipline::Static { batch, .. } = limits.rules.discipline else { return };
        if self.begins_at(limits, queue).is_some_and(|at| at <= now) {
            let members = queue.ready().take(size(batch, limits));
            self.members = members.map(|sequence| sequence.id).collect();
        }
    }

    /// When the next batch begins if nobody else comes.
    pub(crate) fn begins_at(&self, limits: &Limits, queue: &Queue) -> Option<Micros> {
        match limits.rules.discipline {
            Discipline::Static { batch, wait } if self.members.is_empty() => {
                let size = size(batch, limits);
                let wait = if queue.ready_len() >= size { Span::ZERO } else { wait };
                queue.ready().take(size).map(|it| it.submitted_at + wait).min()
            }
            Discipline::Static { .. } | Discipline::Fifo | Discipline::Continuous => None,
        }
    }

    /// Members who may join now, in planning order.
    pub(crate) fn ready<'a>(
        &self,
        queue: &'a Queue,
        keys: &BTreeMap<RequestId, PlanKey>,
    ) -> impl Iterator<Item = &'a Sequence> {
        let waiting = self.members.iter().filter_map(|id| queue.get(keys.get(id)?));
        let mut ready: Vec<&Sequence> = waiting.filter(|it| it.rests_until.is_none()).collect();
        ready.sort_unstable_by_key(|sequence| sequence.key);
        ready.into_iter()
    }

    pub(crate) fn ended(&mut self, id: RequestId) {
        self.members.remove(&id);
    }
}

fn size(batch: u32, limits: &Limits) -> usize {
    batch.min(limits.slots).max(1) as usize
}
