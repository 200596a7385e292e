//! An engine made of a cost model.
//!
//! Deterministic: the next token is a function of all tokens before it, so that the same prompt gets
//! the same answer, alone or in a batch, in one go or after a preemption, with or without a kept
//! prefix. It takes no time; its outcomes say how long they would have taken. Whoever wants to wait,
//! waits. It is as strict as a real backend would have to be: a plan that does not go on from what it
//! holds is unfit.

mod answers;
mod ledger;

use std::collections::BTreeMap;

use units::{Owner, RequestId, Slot, Token};

use crate::{Engine, EngineError, Join, Move, Sampled, Spent, StepCost, StepOutcome, StepPlan};
pub use answers::Answers;
use answers::then;
use ledger::Ledger;

/// A model that is only a cost model.
#[derive(Debug)]
pub struct MockEngine {
    cost: StepCost,
    answers: Answers,
    streams: Vec<Stream>,
    /// What owners keep, as [`Stream::digests`].
    kept: BTreeMap<Owner, Vec<u64>>,
}

/// What a slot holds.
#[derive(Clone, Debug, Default)]
struct Stream {
    id: Option<RequestId>,
    /// A digest of all tokens up to each position instead of their KV.
    digests: Vec<u64>,
    sampled: u32,
    top_logprobs: Option<u32>,
}

impl MockEngine {
    /// An engine of `slots` sequences. `cost` is the truth about its steps.
    #[must_use]
    pub fn new(slots: u32, cost: StepCost, answers: Answers) -> Self {
        let streams = vec![Stream::default(); slots as usize];
        Self { cost, answers, streams, kept: BTreeMap::new() }
    }

    fn make(&mut self, made: Move) {
        match made {
            Move::Keep { slot, owner, tokens } => {
                let kept = self.streams[slot.0 as usize].digests[..tokens as usize].to_vec();
                self.kept.insert(owner, kept);
            }
            Move::Cut { owner, tokens } => {
                self.kept.entry(owner).and_modify(|kept| kept.truncate(tokens as usize));
            }
            Move::Drop { owner } => {
                self.kept.remove(&owner);
            }
            Move::Leave { slot } => self.streams[slot.0 as usize] = Stream::default(),
        }
    }

    fn join(&mut self, join: &Join) {
        let stream = &mut self.streams[join.slot.0 as usize];
        stream.id = Some(join.id);
        stream.sampled = join.sampled;
        stream.top_logprobs = join.top_logprobs;
        stream.digests.clear();
        if let Some(reuse) = join.reuse {
            stream.digests.extend(&self.kept[&reuse.owner][..reuse.tokens as usize]);
        }
    }

    fn sample(&mut self, slot: Slot, id: RequestId) -> Sampled {
        let stream = &mut self.streams[slot.0 as usize];
        let digest = stream.digest();
        let (token, stop) = self.answers.next(digest, stream.sampled);
        stream.sampled += 1;
        let wanted = stream.top_logprobs;
        let logprobs = wanted.map(|count| self.answers.logprobs(digest, token, count));
        Sampled { id, token, stop, logprobs }
    }
}

impl Engine for MockEngine {
    fn execute(&mut self, plan: &StepPlan) -> Result<StepOutcome, EngineError> {
        Ledger::new(self).check(plan)?;
        for made in &plan.moves {
            self.make(*made);
        }
        for join in &plan.joins {
            self.join(join);
        }
        for decode in &plan.decodes {
            self.streams[decode.slot.0 as usize].absorb(&[decode.token]);
        }
        for piece in &plan.prefills {
            self.streams[piece.slot.0 as usize].absorb(piece.tokens());
        }
        let decodes = plan.decodes.iter().map(|decode| (decode.slot, decode.id));
        let prompts = plan.prefills.iter().filter(|piece| piece.last);
        let samplers = decodes.chain(prompts.map(|piece| (piece.slot, piece.id)));
        let sampled = samplers.map(|(slot, id)| self.sample(slot, id)).collect();
        let took = self.cost.predict(plan.shape);
        let spent = Spent { decoding: took, ..Spent::default() };
        Ok(StepOutcome { sampled, took, spent, lost: Vec::new() })
    }
}

impl Stream {
    fn digest(&self) -> u64 {
        self.digests.last().copied().unwrap_or_default()
    }

    fn absorb(&mut self, tokens: &[Token]) {
        for &token in tokens {
            self.digests.push(then(self.digest(), token));
        }
    }
}
