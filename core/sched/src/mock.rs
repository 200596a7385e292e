//! An engine made of a cost model.
//!
//! Deterministic: the next token is a function of all tokens before it, so that the same prompt gets
//! the same answer, alone or in a batch, in one go or after an eviction. It takes no time; its
//! outcomes say how long they would have taken. Whoever wants to wait, waits.

use std::ops::Range;

use sample::{Logprob, Logprobs};
use units::{RequestId, Slot, Token};

use crate::{Engine, EngineError, Sampled, StepCost, StepOutcome, StepPlan};

/// A model that is only a cost model.
#[derive(Debug)]
pub struct MockEngine {
    cost: StepCost,
    answers: Answers,
    streams: Vec<Stream>,
}

/// What the mock answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answers {
    /// Tokens that answers are made of. Not empty.
    pub words: Range<u32>,
    /// The end-of-turn token.
    pub end: Token,
    /// Tokens of every answer, the end included. 0: answers never end by themselves.
    pub tokens: u32,
}

/// What a slot holds: a digest of its tokens instead of their KV.
#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    owner: Option<RequestId>,
    computed: u32,
    sampled: u32,
    digest: u64,
    top_logprobs: Option<u32>,
}

impl MockEngine {
    /// An engine of `slots` sequences. `cost` is the truth about its steps.
    #[must_use]
    pub fn new(slots: u32, cost: StepCost, answers: Answers) -> Self {
        Self { cost, answers, streams: vec![Stream::default(); slots as usize] }
    }

    fn stream(
        &mut self,
        slot: Slot,
        id: RequestId,
        position: usize,
    ) -> Result<&mut Stream, EngineError> {
        let unfit = |what: String| EngineError::Unfit(what);
        let stream = self.streams.get_mut(slot.0 as usize);
        let stream = stream.ok_or_else(|| unfit(format!("there is no slot {}", slot.0)))?;
        if stream.owner != Some(id) {
            return Err(unfit(format!("slot {} does not belong to {id}", slot.0)));
        }
        if stream.computed as usize != position {
            let computed = stream.computed;
            return Err(unfit(format!("position {position} does not follow {computed} tokens")));
        }
        Ok(stream)
    }

    fn sample(&mut self, slot: Slot, id: RequestId) -> Sampled {
        let answers = &self.answers;
        let stream = &mut self.streams[slot.0 as usize];
        stream.sampled += 1;
        let stop = answers.tokens > 0 && stream.sampled >= answers.tokens;
        let token = if stop { answers.end } else { answers.word(mix(stream.digest)) };
        let (digest, wanted) = (stream.digest, stream.top_logprobs);
        let logprobs = wanted.map(|count| answers.logprobs(digest, token, count));
        Sampled { id, token, stop, logprobs }
    }
}

impl Answers {
    fn word(&self, number: u64) -> Token {
        let choices = u64::from(self.words.end - self.words.start);
        let choice = u32::try_from(number % choices).expect("below a 32-bit bound");
        Token(self.words.start + choice)
    }

    /// A falling series of probabilities, which sum to at most 1: now and then another word is likelier than
    /// the one that is taken, as it is with real models.
    fn logprobs(&self, digest: u64, taken: Token, count: u32) -> Logprobs {
        let rank = usize::from(digest.is_multiple_of(4));
        let share = 0.3 + (digest % 64) as f32 / 128.0;
        let logprob = |rank: usize| share.ln() + rank as f32 * (1.0 - share).ln();
        let others = (1..u64::from(count) + 1).map(|step| self.word(mix(digest) + step));
        let mut order: Vec<Token> = others.filter(|&other| other != taken).collect();
        order.sort_unstable();
        order.dedup();
        order.insert(rank.min(order.len()), taken);
        order.truncate(count as usize);
        let top = order.into_iter().enumerate();
        let top = top.map(|(rank, token)| Logprob { token, logprob: logprob(rank) });
        Logprobs { chosen: logprob(rank), top: top.collect() }
    }
}

impl Engine for MockEngine {
    fn execute(&mut self, plan: &StepPlan) -> Result<StepOutcome, EngineError> {
        for join in &plan.joins {
            let stream = self.streams.get_mut(join.slot.0 as usize);
            let stream =
                stream.ok_or_else(|| EngineError::Unfit(format!("no slot {}", join.slot.0)))?;
            *stream = Stream {
                owner: Some(join.id),
                sampled: join.sampled,
                top_logprobs: join.top_logprobs,
                ..Stream::default()
            };
        }
        for decode in &plan.decodes {
            let stream = self.stream(decode.slot, decode.id, decode.position as usize)?;
            stream.absorb(&[decode.token]);
        }
        for piece in &plan.prefills {
            let stream = self.stream(piece.slot, piece.id, piece.range.start)?;
            stream.absorb(piece.tokens());
        }
        let decodes = plan.decodes.iter().map(|decode| (decode.slot, decode.id));
        let prompts = plan.prefills.iter().filter(|piece| piece.last);
        let samplers = decodes.chain(prompts.map(|piece| (piece.slot, piece.id)));
        let sampled = samplers.map(|(slot, id)| self.sample(slot, id)).collect();
        Ok(StepOutcome { sampled, took: self.cost.predict(plan.shape) })
    }
}

impl Stream {
    fn absorb(&mut self, tokens: &[Token]) {
        for token in tokens {
            self.digest = mix(self.digest ^ u64::from(token.0));
            self.computed += 1;
        }
    }
}

/// SplitMix64's finaliser: every input bit moves every output bit.
fn mix(value: u64) -> u64 {
    let mut value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}
