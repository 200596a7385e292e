//! Runs steps on a model.

use std::time::Instant;

use llama_cpp_2::{DecodeError, context::LlamaContext, llama_batch::LlamaBatch, token::LlamaToken};
use sample::{Logprobs, Sampler};
use sched::{Engine, EngineError, Move, Sampled, Spent, StepOutcome, StepPlan};
use text::Tokenizer;
use units::{Owner, RequestId, Slot, Span, Token};

use crate::{
    ContextError, LayoutKind, Model, Options, backend,
    layout::{Layout, LayoutError, Streams, Unified},
    ledger::{Ledger, Limits},
};

/// Runs steps on a [`Model`]. Made and used on the engine thread.
pub struct Context<'model> {
    model: &'model Model,
    llama: LlamaContext<'model>,
    limits: Limits,
    ledger: Ledger,
    layout: Box<dyn Layout>,
    /// What samples each slot's sequence.
    samplers: Vec<Option<SlotSampler>>,
    batch: LlamaBatch<'static>,
    /// What goes into the batch.
    rows: Vec<Row>,
    /// Rows of the batch whose logits are wanted, in the order of the outcome.
    wanted: Vec<Wanted>,
    /// Spent inside llama.cpp since the context was made.
    decoding: Span,
    /// Spent on keeping prefixes and beginning sequences.
    moving: Span,
}

/// How the tokens of a slot's sequence are sampled.
#[derive(Clone, Debug)]
struct SlotSampler {
    sampler: Sampler,
    top_logprobs: Option<u32>,
}

/// A row of the batch.
#[derive(Clone, Copy, Debug)]
struct Row {
    sequence: i32,
    position: i32,
    token: Token,
    /// Whose its logits are: an index into what is wanted.
    wanted: Option<usize>,
}

/// A row whose logits give a token.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    row: i32,
    slot: Slot,
    id: RequestId,
}

impl Model {
    /// Makes a context. Takes the memory for all its slots at once.
    ///
    /// # Errors
    /// An option is out of range, or there is not enough memory.
    pub fn context(&self, options: &Options) -> Result<Context<'_>, ContextError> {
        let options = self.with_possible_owners(options);
        let shape = options.shape()?;
        let making = self.making_context();
        let made = self.llama().new_context(backend::get(), options.params(shape));
        drop(making);
        let llama = made.map_err(|_| ContextError::Refused {
            cells: shape.cells,
            kv_bytes: self.facts().kv_bytes_per_token.saturating_mul(shape.cells.into()),
        })?;
        let Options { slots, owners, .. } = options;
        let (cells, layout): (_, Box<dyn Layout>) = match options.layout {
            LayoutKind::Streams => (None, Box::new(Streams::new(slots, owners))),
            LayoutKind::Unified { .. } => (Some(shape.cells), Box::new(Unified::new(slots))),
        };
        let limits = Limits {
            slots,
            owners,
            context_tokens: shape.context_tokens,
            cells,
            rows: llama.n_batch().min(options.batch_tokens) as usize,
            vocabulary: self.vocabulary().len(),
        };
        Ok(Context {
            model: self,
            llama,
            limits,
            ledger: Ledger::new(limits),
            layout,
            samplers: vec![None; slots as usize],
            batch: LlamaBatch::new(limits.rows, 1),
            rows: Vec::with_capacity(limits.rows),
            wanted: Vec::with_capacity(limits.rows),
            decoding: Span::ZERO,
            moving: Span::ZERO,
        })
    }

    /// The options, without owners if nothing of what they keep could be reused.
    fn with_possible_owners(&self, options: &Options) -> Options {
        let facts = self.facts();
        if facts.reusable || options.owners == 0 {
            return *options;
        }
        let architecture = &facts.architecture;
        tracing::warn!(%architecture, "no prefix can be kept: layers with a sliding window forget");
        Options { owners: 0, ..*options }
    }
}

impl Context<'_> {
    /// Tokens that each slot can hold: what was asked for, or a little more.
    #[must_use]
    pub fn context_tokens(&self) -> u32 {
        self.limits.context_tokens
    }

    /// Rows that a step can have: what was asked for, or less if all slots together hold less.
    #[must_use]
    pub fn batch_tokens(&self) -> usize {
        self.limits.rows
    }

    /// Time spent inside llama.cpp since the context was made: what a step takes beyond it is ours.
    #[must_use]
    pub fn decoding(&self) -> Span {
        self.decoding
    }

    /// Time spent on keeping prefixes and on beginning sequences, with one or without, since the context was
    /// made.
    #[must_use]
    pub fn moving(&self) -> Span {
        self.moving
    }

    /// Bytes of host memory that kept prefixes take now, beside the context's own cells.
    #[must_use]
    pub fn kept_bytes(&self) -> u64 {
        self.layout.kept_bytes()
    }

    /// Tells which owners do not keep what they should.
    fn make_moves(&mut self, plan: &StepPlan) -> Vec<Owner> {
        let mut lost = Vec::new();
        for &made in &plan.moves {
            let (owner, moved) = match made {
                Move::Leave { slot } => {
                    self.leave(slot);
                    continue;
                }
                Move::Keep { slot, owner, tokens } => {
                    (owner, self.layout.keep(&mut self.llama, slot, owner, tokens))
                }
                Move::Cut { owner, tokens } => {
                    (owner, self.layout.cut(&mut self.llama, owner, tokens))
                }
                Move::Drop { owner } => (owner, self.layout.give_up(&mut self.llama, owner)),
            };
            if let Err(error) = moved {
                tracing::warn!(%error, "a prefix is lost");
                self.lose(owner);
                lost.push(owner);
            }
        }
        lost
    }

    fn leave(&mut self, slot: Slot) {
        self.samplers[slot.0 as usize] = None;
        if let Err(error) = self.layout.leave(&mut self.llama, slot) {
            tracing::error!(%error, "a slot could not be cleared");
        }
    }

    /// The owner keeps nothing that can be relied on: makes it keep nothing.
    fn lose(&mut self, owner: Owner) {
        self.ledger.lose(owner);
        if let Err(error) = self.layout.give_up(&mut self.llama, owner) {
            tracing::error!(%error, "a kept prefix could not be given up");
        }
    }

    fn join(&mut self, plan: &StepPlan) -> Result<(), LayoutError> {
        for join in &plan.joins {
            let begun = self.layout.begin(&mut self.llama, join.slot, join.reuse);
            if let (Err(_), Some(reuse)) = (begun, join.reuse) {
                // Or all who come after would fail in the same way.
                self.lose(reuse.owner);
            }
            begun?;
            let (prompt, answer) = join.prompt_and_answer();
            let sampler = Sampler::new(join.sampling.clone(), prompt, answer);
            self.samplers[join.slot.0 as usize] =
                Some(SlotSampler { sampler, top_logprobs: join.top_logprobs });
        }
        Ok(())
    }

    /// Gathers the rows of a plan: decodes, then prompts.
    fn gather(&mut self, plan: &StepPlan) {
        self.rows.clear();
        self.wanted.clear();
        for decode in &plan.decodes {
            self.add(decode.slot, decode.token, decode.position, Some(decode.id));
        }
        for piece in &plan.prefills {
            let end = piece.range.end;
            for (at, &token) in piece.range.clone().zip(piece.tokens()) {
                let wanted = (piece.last && at + 1 == end).then_some(piece.id);
                let position = u32::try_from(at).expect("the ledger has compared it");
                self.add(piece.slot, token, position, wanted);
            }
        }
    }

    /// Adds a row; its logits are wanted if it names whose they are.
    fn add(&mut self, slot: Slot, token: Token, position: u32, wanted: Option<RequestId>) {
        let index = wanted.map(|id| {
            self.wanted.push(Wanted { row: 0, slot, id });
            self.wanted.len() - 1
        });
        let (sequence, position) = (self.layout.sequence(slot), position.cast_signed());
        self.rows.push(Row { sequence, position, token, wanted: index });
    }

    fn fill_batch(&mut self) -> Result<(), EngineError> {
        if self.layout.wants_order() {
            self.rows.sort_unstable_by_key(|row| (row.sequence, row.position));
        }
        self.batch.clear();
        for row in &self.rows {
            if let Some(index) = row.wanted {
                self.wanted[index].row = self.batch.n_tokens();
            }
            let token = LlamaToken(row.token.0.cast_signed());
            self.batch
                .add(token, row.position, &[row.sequence], row.wanted.is_some())
                .map_err(|error| EngineError::Backend(error.to_string()))?;
        }
        Ok(())
    }

    /// Says how long it was inside llama.cpp.
    fn decode(&mut self) -> Result<Span, EngineError> {
        let begun = Instant::now();
        let decoded = self.llama.decode(&mut self.batch);
        let took = begun.elapsed().into();
        self.decoding += took;
        decoded.map(|()| took).map_err(|error| match error {
            DecodeError::NoKvCacheSlot => {
                EngineError::NoRoom { rows: self.batch.n_tokens().unsigned_abs() as usize }
            }
            DecodeError::NTokensZero | DecodeError::Unknown(_) => {
                EngineError::Backend(error.to_string())
            }
        })
    }

    fn sample(&mut self) -> Vec<Sampled> {
        let vocabulary = self.model.vocabulary();
        let sampled = self.wanted.iter().map(|wanted| {
            let sampler = self.samplers[wanted.slot.0 as usize].as_mut();
            let SlotSampler { sampler, top_logprobs } =
                sampler.expect("the ledger has seen the slot's sequence join");
            let logits = self.llama.get_logits_ith(wanted.row);
            let token = sampler.sample(logits);
            let logprobs = top_logprobs.map(|count| Logprobs::of(logits, token, count));
            Sampled { id: wanted.id, token, stop: vocabulary.is_end(token), logprobs }
        });
        sampled.collect()
    }

    /// Everything but how long the step took as a whole.
    fn run(&mut self, plan: &StepPlan) -> Result<StepOutcome, EngineError> {
        let begun = Instant::now();
        let lost = self.make_moves(plan);
        let joined = self.join(plan);
        if joined.is_ok() {
            self.layout.settle(&mut self.llama);
        }
        let moving = begun.elapsed().into();
        self.moving += moving;
        joined?;
        self.gather(plan);
        self.fill_batch()?;
        let decoding = self.decode()?;
        let begun = Instant::now();
        let sampled = self.sample();
        let spent = Spent { moving, decoding, sampling: begun.elapsed().into() };
        Ok(StepOutcome { sampled, spent, lost, took: Span::ZERO })
    }

    /// After a failure nobody knows what the slots of the plan hold: makes them empty.
    fn abandon(&mut self, plan: &StepPlan) {
        let joined = plan.joins.iter().map(|join| join.slot);
        let decoded = plan.decodes.iter().map(|decode| decode.slot);
        let filled = plan.prefills.iter().map(|piece| piece.slot);
        for slot in joined.chain(decoded).chain(filled) {
            self.ledger.forget(slot);
            self.leave(slot);
        }
    }
}

impl Engine for Context<'_> {
    fn execute(&mut self, plan: &StepPlan) -> Result<StepOutcome, EngineError> {
        let begun = Instant::now();
        self.ledger.note(plan)?;
        match self.run(plan) {
            Ok(outcome) => Ok(StepOutcome { took: begun.elapsed().into(), ..outcome }),
            Err(error) => {
                self.abandon(plan);
                Err(error)
            }
        }
    }
}

#[cfg(test)]
mod tests;
