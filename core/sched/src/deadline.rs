//! Deadlines pass.

use units::{Micros, RequestId};

use crate::{FinishReason, PlanKey, Scheduler, Tier, rules::Late};

impl Scheduler {
    /// Ends those who wait past their deadline, and does with those who run past it what the rules say.
    pub(crate) fn expire(&mut self, now: Micros) {
        while let Some(sequence) = self.queue.late(now) {
            let (id, reason) = (sequence.id, sequence.lateness());
            self.end(now, id, reason);
        }
        let late = self.running.values().filter(|sequence| sequence.is_late(now));
        let late: Vec<(RequestId, Tier)> = late.map(|it| (it.id, it.tier)).collect();
        for (id, tier) in late {
            match self.limits.rules.lateness.of(tier) {
                Late::Finishes => {}
                Late::Demoted => self.demote(id),
                Late::Aborted => {
                    self.counters.aborted(tier);
                    self.end(now, id, FinishReason::Deadline);
                }
            }
        }
    }

    fn demote(&mut self, id: RequestId) {
        let key = self.keys[&id];
        let mut sequence = self.running.remove(&key).expect("it is late and runs");
        sequence.demote();
        sequence.key =
            self.limits.rules.discipline.place(PlanKey { tier: Tier::BestEffort, ..key });
        self.keys.insert(id, sequence.key);
        self.running.insert(sequence.key, sequence);
        self.counters.demoted += 1;
    }
}
