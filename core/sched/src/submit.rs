//! Requests come in.

use units::Micros;

use crate::{
    Event, PlanKey, Refusal, Scheduler, Submission,
    seq::{Sequence, blocks_of, count},
};

impl Scheduler {
    pub(crate) fn submit(&mut self, now: Micros, submission: Submission) {
        let id = submission.id;
        if let Some(refusal) = self.refusal(&submission) {
            self.events.push(Event::Refused { id, refusal });
            return;
        }
        let evict = submission.evict.clone();
        self.arrivals += 1;
        let key = PlanKey {
            tier: submission.tier,
            deadline: submission.deadline.unwrap_or(Micros(u64::MAX)),
            arrival: self.arrivals,
        };
        let sequence = Sequence::new(self.limits.rules.discipline.place(key), submission);
        self.unleased += u32::from(sequence.epoch.is_none());
        self.events.push(Event::Accepted {
            id,
            tier: sequence.tier,
            epoch: sequence.epoch,
            prompt_tokens: sequence.usage().prompt_tokens,
            max_tokens: sequence.max_tokens,
            budget: sequence.deadline.map(|deadline| deadline.until(now)),
            first_token: sequence.first_token_budget,
            blocks: sequence.blocks(&self.limits),
        });
        self.keys.insert(id, sequence.key);
        self.queue.insert(sequence);
        for victim in evict {
            self.evict(now, victim);
        }
    }

    fn refusal(&self, submission: &Submission) -> Option<Refusal> {
        let limits = &self.limits;
        let waiting = count(self.queue.rivals(submission.tier));
        let needed = blocks_of(count(submission.prompt.len()), submission.max_tokens, limits);
        if self.draining {
            Some(Refusal::Draining)
        } else if self.keys.contains_key(&submission.id) {
            Some(Refusal::Duplicate)
        } else if needed > limits.kv_blocks {
            Some(Refusal::TooLarge { needed: needed.0, total: limits.kv_blocks.0 })
        } else if waiting >= limits.waiting {
            Some(Refusal::QueueFull { waiting, limit: limits.waiting })
        } else if submission.epoch.is_none() && self.unleased >= limits.unleased {
            Some(Refusal::UnleasedFull { unleased: self.unleased, limit: limits.unleased })
        } else {
            None
        }
    }
}
