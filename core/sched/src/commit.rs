//! What a step produced.

use units::{Micros, RequestId};

use crate::{
    EngineError, Event, FinishReason, Sampled, Scheduler, StepOutcome, StepPlan, StepRecord,
    seq::count,
};

impl Scheduler {
    /// Takes the outcome of the plan that [`plan_step`](Self::plan_step) gave last. After an error
    /// every sequence of the plan has failed; the others go on.
    pub fn commit_step(
        &mut self,
        now: Micros,
        plan: StepPlan,
        outcome: Result<StepOutcome, EngineError>,
    ) {
        let mut outcome = match outcome {
            Ok(outcome) => outcome,
            Err(error) => return self.fail(now, &plan, &error),
        };
        self.moves.done(&plan.moves, &outcome.lost);
        self.cost.observe(plan.shape, outcome.took);
        self.advance(&plan);
        if !outcome.lost.is_empty() {
            self.forget();
        }
        // First tokens are told first: nobody waits longer than those who have seen nothing yet, and what
        // is told last waits for the delivery of all before it.
        let decoded = plan.decodes.len().min(outcome.sampled.len());
        outcome.sampled.rotate_left(decoded);
        self.events.reserve(outcome.sampled.len() + 1);
        for sampled in &outcome.sampled {
            self.sampled(now, sampled);
        }
        self.events.push(Event::Step(StepRecord {
            step: plan.number,
            shape: plan.shape,
            took: outcome.took,
            predicted: plan.predicted,
            running: count(self.running.len()),
            waiting: count(self.queue.len()),
        }));
    }

    /// Notes what was computed, and publishes the prompts that are complete: a burst of requests that begin
    /// alike shares from the next step on.
    fn advance(&mut self, plan: &StepPlan) {
        for decode in &plan.decodes {
            if let Some(sequence) = self.running_mut(decode.id) {
                sequence.computed += 1;
            }
        }
        for piece in &plan.prefills {
            let Some(key) = self.keys.get(&piece.id) else { continue };
            let Some((key, mut sequence)) = self.running.remove_entry(key) else { continue };
            sequence.computed += count(piece.range.len());
            if piece.last {
                self.publish(&mut sequence);
            }
            self.running.insert(key, sequence);
        }
    }

    fn sampled(&mut self, now: Micros, sampled: &Sampled) {
        let id = sampled.id;
        let Some(sequence) = self.running_mut(id) else { return };
        let first = sequence.take(now, sampled.token);
        let full = sequence.sampled >= sequence.max_tokens;
        self.events.push(Event::Token { id, token: sampled.token, first });
        if sampled.stop {
            self.end(now, id, FinishReason::Stop);
        } else if full {
            self.end(now, id, FinishReason::Length);
        }
    }

    fn fail(&mut self, now: Micros, plan: &StepPlan, error: &EngineError) {
        let decodes = plan.decodes.iter().map(|decode| decode.id);
        let prefills = plan.prefills.iter().map(|piece| piece.id);
        let ids: Vec<RequestId> = decodes.chain(prefills).collect();
        for id in ids {
            self.end(now, id, FinishReason::Failed(error.to_string()));
        }
        match error {
            EngineError::Unfit(_) => self.forget(),
            EngineError::NoRoom { .. } | EngineError::Backend(_) => {
                self.moves.done(&plan.moves, &[]);
            }
        }
    }
}
