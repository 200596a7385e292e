//! A solution becomes a plan: sequences grow, join and get their rows.

use kv::Match;
use units::Micros;

use crate::{
    Decode, Event, Join, Prefill, Reuse, Scheduler, StepPlan, StepSolution,
    candidates::Candidate,
    seq::{Seat, Sequence, whole_blocks},
};

impl Scheduler {
    pub(crate) fn build(
        &mut self,
        now: Micros,
        solution: &StepSolution,
        candidates: Vec<Candidate>,
    ) -> StepPlan {
        let mut joining = Vec::new();
        for (at, candidate) in candidates.into_iter().enumerate() {
            match solution.joins.iter().find(|(joins, _)| *joins == at) {
                Some(&(_, tokens)) => joining.push((candidate, tokens)),
                None => self.cache.forgo(candidate.found),
            }
        }
        if solution.rows() == 0 {
            return StepPlan::default();
        }
        self.step += 1;
        let mut plan = StepPlan {
            number: self.step,
            predicted: self.cost.predict(solution.shape),
            shape: solution.shape,
            decodes: Vec::with_capacity(solution.decodes.len()),
            ..StepPlan::default()
        };
        self.plan_running(solution, &mut plan);
        for (candidate, tokens) in joining {
            self.join(now, candidate, tokens, &mut plan);
        }
        self.moves.cut(self.cache.drain_cuts());
        plan.moves = self.moves.take();
        plan
    }

    fn plan_running(&mut self, solution: &StepSolution, plan: &mut StepPlan) {
        let Self { running, cache, .. } = self;
        let mut running: Vec<&mut Sequence> = running.values_mut().collect();
        for &at in &solution.decodes {
            let sequence = &mut *running[at];
            let grows = sequence.grows();
            if grows.0 > 0 {
                let lease = &mut seat_mut(sequence).lease;
                assert!(cache.grow(lease, grows), "SC-4: the planner counted the blocks");
            }
            plan.decodes.push(decode(sequence));
        }
        let prefills = solution.prefills.iter();
        plan.prefills.extend(prefills.map(|&(at, tokens)| prefill(running[at], tokens)));
    }

    /// Seats a request, with the next `tokens` of its prompt behind what was found of it.
    fn join(&mut self, now: Micros, candidate: Candidate, tokens: u32, plan: &mut StepPlan) {
        let Candidate { key, found } = candidate;
        let mut sequence = self.queue.remove(&key).expect("a candidate waits");
        let (seat, reuse) = self.seat(&sequence, found);
        sequence.start(now, seat);
        let cached_tokens = sequence.computed;
        self.events.push(Event::Started { id: sequence.id, cached_tokens });
        plan.joins.push(Join {
            slot: seat_of(&sequence).slot,
            id: sequence.id,
            sampling: sequence.sampling.clone(),
            history: sequence.history.clone(),
            sampled: sequence.sampled,
            top_logprobs: sequence.top_logprobs,
            reuse,
        });
        plan.prefills.push(prefill(&sequence, tokens));
        self.running.insert(key, sequence);
    }

    fn seat(&mut self, sequence: &Sequence, found: Match) -> (Seat, Option<Reuse>) {
        let slot = self.free_slots.pop().expect("SC-4: the planner counted the slots");
        let blocks = sequence.joining_blocks(&self.limits);
        let lease =
            self.cache.reserve(found, blocks).expect("SC-4: the planner counted the blocks");
        let tokens = lease.cached_tokens();
        let reuse = lease.owner().map(|owner| Reuse { owner, tokens });
        (Seat { slot, lease, offered: whole_blocks(tokens) }, reuse)
    }
}

fn seat_of(sequence: &Sequence) -> &Seat {
    sequence.seat.as_ref().expect("a running sequence has a seat")
}

fn seat_mut(sequence: &mut Sequence) -> &mut Seat {
    sequence.seat.as_mut().expect("a running sequence has a seat")
}

fn decode(sequence: &Sequence) -> Decode {
    Decode {
        slot: seat_of(sequence).slot,
        id: sequence.id,
        token: sequence.last(),
        position: sequence.computed,
    }
}

fn prefill(sequence: &Sequence, tokens: u32) -> Prefill {
    let start = sequence.computed as usize;
    Prefill {
        slot: seat_of(sequence).slot,
        id: sequence.id,
        prompt: sequence.history.clone(),
        range: start..start + tokens as usize,
        last: tokens == sequence.prefill_left(),
    }
}
