//! The step loop without its channels: plan, execute, read, commit, drain.

use std::collections::BTreeMap;

use llama::{Context, Model};
use sched::{Command, Engine as _, Event, Limits, Scheduler, StepCost, Submission};
use text::{Tokenizer as _, Transcript};
use units::{Micros, RequestId, Span};

/// A scheduler that drives a context.
pub(crate) struct Drive<'bench, 'model> {
    model: &'model Model,
    context: &'bench mut Context<'model>,
    scheduler: Scheduler,
    transcripts: BTreeMap<RequestId, Transcript>,
}

impl<'bench, 'model> Drive<'bench, 'model> {
    pub(crate) fn new(
        model: &'model Model,
        context: &'bench mut Context<'model>,
        limits: Limits,
        cache: Box<dyn kv::KvCore>,
    ) -> Self {
        let scheduler = Scheduler::new(limits, StepCost::GUESS, cache);
        Self { model, context, scheduler, transcripts: BTreeMap::new() }
    }

    /// Nothing stops the answer before its cap.
    pub(crate) fn submit(&mut self, submission: Submission) {
        self.transcripts.insert(submission.id, Transcript::new(vec!["\u{0}never".into()]));
        self.scheduler.on_command(Micros(0), Command::Submit(submission));
    }

    /// One step. Says how many tokens it sampled, or that there was nothing to do.
    pub(crate) fn step(&mut self) -> Option<usize> {
        let plan = self.scheduler.plan_step(Micros(0));
        if plan.is_empty() {
            return None;
        }
        let mut outcome = self.context.execute(&plan).expect("a step");
        for sampled in &mut outcome.sampled {
            let transcript = self.transcripts.get_mut(&sampled.id).expect("its own");
            transcript.push(self.model.vocabulary(), sampled.token);
            sampled.stop = false;
        }
        self.scheduler.commit_step(Micros(0), plan, Ok(outcome));
        let events = self.scheduler.drain_events();
        Some(events.iter().filter(|event| matches!(event, Event::Token { .. })).count())
    }

    /// Time that the context has spent inside llama.cpp.
    pub(crate) fn decoding(&self) -> Span {
        self.context.decoding()
    }
}
