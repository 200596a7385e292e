//! Sequences that are driven by hand.

use std::sync::Arc;

use llama::{Context, LayoutKind, Options};
use sample::{Logprobs, Sampling};
use sched::{Decode, Engine, Join, Move, Prefill, Reuse, StepOutcome, StepPlan};
use text::{ChatTemplate, Message, Tokenizer, Transcript, encode};
use units::{RequestId, Slot, Token};

use crate::model;

/// One thread: tests run beside each other, and two would wait for each other at every layer.
pub(crate) const SMALL: Options = Options {
    slots: 3,
    context_tokens: 512,
    batch_tokens: 256,
    threads: 1,
    owners: 0,
    layout: LayoutKind::Streams,
};

pub(crate) fn context(options: &Options) -> Context<'static> {
    model().context(options).expect("fits into memory")
}

pub(crate) fn chat(content: &str) -> Arc<[Token]> {
    let template = ChatTemplate::of(model()).expect("compiles");
    let user = Message { role: "user".to_owned(), content: content.to_owned() };
    encode(&template.render(&[user]).expect("takes a user's message"), model()).into()
}

/// A sequence that is driven by hand.
pub(crate) struct Sequence {
    pub(crate) slot: Slot,
    pub(crate) prompt: Arc<[Token]>,
    pub(crate) sampling: Sampling,
    /// Tokens at the end of `prompt` that were sampled before an eviction.
    pub(crate) sampled: u32,
    pub(crate) top_logprobs: Option<u32>,
    /// Where the prompt begins, if not at its first token.
    pub(crate) reuse: Option<Reuse>,
    /// What it goes on with, whatever it answers.
    pub(crate) forced: Vec<Token>,
    pub(crate) told: Vec<Logprobs>,
    /// Tokens whose KV is in the slot; none before it joins.
    pub(crate) computed: Option<usize>,
    pub(crate) answer: Vec<Token>,
    pub(crate) ended: bool,
}

impl Sequence {
    pub(crate) fn new(slot: u32, prompt: Arc<[Token]>) -> Self {
        Self {
            slot: Slot(slot),
            prompt,
            sampling: Sampling::GREEDY,
            sampled: 0,
            top_logprobs: None,
            reuse: None,
            forced: Vec::new(),
            told: Vec::new(),
            computed: None,
            answer: Vec::new(),
            ended: false,
        }
    }

    fn id(&self) -> RequestId {
        RequestId(u128::from(self.slot.0) + 100)
    }

    /// Adds what it does next to the plan: a piece of the prompt, or a token.
    pub(crate) fn plan(&mut self, plan: &mut StepPlan, piece: usize) {
        let (slot, id) = (self.slot, self.id());
        let mut computed = self.computed.unwrap_or_else(|| {
            plan.joins.push(self.join());
            self.reuse.map_or(0, |reuse| reuse.tokens as usize)
        });
        if computed < self.prompt.len() {
            let end = self.prompt.len().min(computed + piece);
            let (range, last) = (computed..end, end == self.prompt.len());
            plan.prefills.push(Prefill { slot, id, prompt: self.prompt.clone(), range, last });
            computed = end;
        } else if let (Some(token), false) = (self.next(), self.ended) {
            let position = u32::try_from(computed).expect("a test is short");
            plan.decodes.push(Decode { slot, id, token, position });
            computed += 1;
        }
        self.computed = Some(computed);
    }

    fn join(&self) -> Join {
        Join {
            slot: self.slot,
            id: self.id(),
            sampling: self.sampling.clone(),
            history: self.prompt.clone(),
            sampled: self.sampled,
            top_logprobs: self.top_logprobs,
            reuse: self.reuse,
        }
    }

    fn next(&self) -> Option<Token> {
        let answered = self.answer.len().checked_sub(1)?;
        self.forced.get(answered).or(self.answer.last()).copied()
    }

    fn take(&mut self, outcome: &StepOutcome) {
        let id = self.id();
        for sampled in outcome.sampled.iter().filter(|sampled| sampled.id == id) {
            self.answer.push(sampled.token);
            self.told.extend(sampled.logprobs.clone());
            self.ended = sampled.stop && self.forced.is_empty();
        }
    }

    pub(crate) fn text(&self) -> String {
        let mut transcript = Transcript::new(Vec::new());
        let push = |&token: &Token| transcript.push(model().vocabulary(), token).text;
        let text: String = self.answer.iter().map(push).collect();
        text + &transcript.finish()
    }
}

/// Runs the sequences side by side until each has ended or has `tokens` tokens.
pub(crate) fn run(
    context: &mut Context<'_>,
    sequences: &mut [Sequence],
    piece: usize,
    tokens: usize,
) {
    run_after(context, Vec::new(), sequences, piece, tokens);
}

/// The same, after some moves.
pub(crate) fn run_after(
    context: &mut Context<'_>,
    moves: Vec<Move>,
    sequences: &mut [Sequence],
    piece: usize,
    tokens: usize,
) {
    let mut plan = StepPlan { moves, ..StepPlan::default() };
    loop {
        for sequence in sequences.iter_mut().filter(|one| !one.ended && one.answer.len() < tokens) {
            sequence.plan(&mut plan, piece);
        }
        if plan.is_empty() {
            return;
        }
        let outcome = context.execute(&plan).expect("the plan fits");
        assert_eq!(outcome.lost, []);
        sequences.iter_mut().for_each(|sequence| sequence.take(&outcome));
        plan = StepPlan::default();
    }
}
