//! Runs steps on a model.

use std::{num::NonZeroU32, time::Instant};

use llama_cpp_2::{
    DecodeError,
    context::{LlamaContext, params::LlamaContextParams},
    llama_batch::LlamaBatch,
    token::LlamaToken,
};
use sample::{Logprobs, Sampler};
use sched::{Engine, EngineError, Sampled, StepOutcome, StepPlan};
use text::Tokenizer;
use units::{RequestId, Slot, Span, Token};

use crate::{
    Model, backend,
    ledger::{Ledger, Limits},
};

/// Sequences that llama.cpp can tell apart.
const SLOTS_MAX: u32 = 256;

/// More rows than any step computes in bearable time.
const ROWS_MAX: u32 = 65_536;

/// Threads, likewise.
const THREADS_MAX: u32 = 512;

/// Rows that are computed at once; a larger batch is computed in turns.
const UBATCH_ROWS: u32 = 512;

/// The least tokens of a stream, and what its length is a multiple of.
const STREAM_STEP: u32 = 256;

/// The policy that turns flash attention on whatever the backend would choose.
const FLASH_ATTENTION_ON: i32 = 1;

/// The size of a [`Context`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Sequences at once, from 1 to 256.
    pub slots: u32,
    /// Tokens that each sequence can hold at least.
    pub context_tokens: u32,
    /// Rows of a step at most, up to 65,536.
    pub batch_tokens: u32,
    /// Threads that compute, up to 512.
    pub threads: u32,
}

/// Why no context can be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ContextError {
    /// An option is out of range.
    #[error("{option} must be from 1 to {max}, not {value}")]
    Range {
        /// Its name in [`Options`].
        option: &'static str,
        /// What was asked for.
        value: u32,
        /// The largest possible.
        max: u32,
    },
    /// llama.cpp makes none, most likely for lack of memory.
    #[error(
        "llama.cpp cannot make a context of {slots} x {context_tokens} tokens ({kv_bytes} bytes of KV); its log says why"
    )]
    Refused {
        /// Sequences.
        slots: u32,
        /// Tokens of each.
        context_tokens: u32,
        /// Memory for them.
        kv_bytes: u64,
    },
}

/// Runs steps on a [`Model`]. Made and used on the engine thread.
pub struct Context<'model> {
    model: &'model Model,
    llama: LlamaContext<'model>,
    limits: Limits,
    ledger: Ledger,
    /// What samples each slot's sequence.
    samplers: Vec<Option<SlotSampler>>,
    batch: LlamaBatch<'static>,
    /// Rows of the batch whose logits are wanted, in the order of the outcome.
    wanted: Vec<Wanted>,
    /// Spent inside llama.cpp since the context was made.
    decoding: Span,
}

/// How the tokens of a slot's sequence are sampled.
#[derive(Clone, Debug)]
struct SlotSampler {
    sampler: Sampler,
    top_logprobs: Option<u32>,
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
        let stream = check(options)?;
        let params = params(options, stream);
        let making = self.making_context();
        let made = self.llama().new_context(backend::get(), params);
        drop(making);
        let llama = made.map_err(|_| ContextError::Refused {
            slots: options.slots,
            context_tokens: stream,
            kv_bytes: (self.facts().kv_bytes_per_token)
                .saturating_mul(u64::from(options.slots) * u64::from(stream)),
        })?;
        let limits = Limits {
            slots: options.slots,
            context_tokens: stream,
            rows: llama.n_batch().min(options.batch_tokens) as usize,
            vocabulary: self.vocabulary().len(),
        };
        Ok(Context {
            model: self,
            llama,
            limits,
            ledger: Ledger::new(limits),
            samplers: vec![None; options.slots as usize],
            batch: LlamaBatch::new(limits.rows, 1),
            wanted: Vec::with_capacity(limits.rows),
            decoding: Span::ZERO,
        })
    }
}

/// Checks the options; the length of a stream.
pub(crate) fn check(options: &Options) -> Result<u32, ContextError> {
    let within = |option, value, max| {
        let fits = (1..=max).contains(&value);
        if fits { Ok(()) } else { Err(ContextError::Range { option, value, max }) }
    };
    within("slots", options.slots, SLOTS_MAX)?;
    // Positions and row numbers are signed.
    let tokens_max = i32::MAX.unsigned_abs() / options.slots / STREAM_STEP * STREAM_STEP;
    within("context_tokens", options.context_tokens, tokens_max)?;
    within("batch_tokens", options.batch_tokens, ROWS_MAX)?;
    within("threads", options.threads, THREADS_MAX)?;
    Ok(options.context_tokens.next_multiple_of(STREAM_STEP))
}

pub(crate) fn params(options: &Options, stream: u32) -> LlamaContextParams {
    let threads = options.threads.cast_signed();
    LlamaContextParams::default()
        .with_n_ctx(NonZeroU32::new(stream * options.slots))
        .with_n_seq_max(options.slots)
        .with_kv_unified(false)
        .with_n_batch(options.batch_tokens)
        .with_n_ubatch(options.batch_tokens.min(UBATCH_ROWS))
        .with_n_threads(threads)
        .with_n_threads_batch(threads)
        .with_flash_attention_policy(FLASH_ATTENTION_ON)
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

    fn join(&mut self, plan: &StepPlan) -> Result<(), EngineError> {
        for join in &plan.joins {
            self.clear(join.slot)?;
            let (prompt, answer) = join.prompt_and_answer();
            let sampler = Sampler::new(join.sampling.clone(), prompt, answer);
            self.samplers[join.slot.0 as usize] =
                Some(SlotSampler { sampler, top_logprobs: join.top_logprobs });
        }
        Ok(())
    }

    fn clear(&mut self, slot: Slot) -> Result<(), EngineError> {
        let removed = self.llama.kv_cache_seq_rm(slot.0.cast_signed(), None, None);
        removed.map_err(|error| EngineError::Backend(format!("clearing slot {}: {error}", slot.0)))
    }

    fn fill_batch(&mut self, plan: &StepPlan) -> Result<(), EngineError> {
        self.batch.clear();
        self.wanted.clear();
        for decode in &plan.decodes {
            self.add(decode.slot, decode.token, decode.position, Some(decode.id))?;
        }
        for piece in &plan.prefills {
            let end = piece.range.end;
            for (at, &token) in piece.range.clone().zip(piece.tokens()) {
                let wanted = (piece.last && at + 1 == end).then_some(piece.id);
                let position = u32::try_from(at).expect("the ledger has compared it");
                self.add(piece.slot, token, position, wanted)?;
            }
        }
        Ok(())
    }

    /// Adds a row; its logits are wanted if it names whose they are.
    fn add(
        &mut self,
        slot: Slot,
        token: Token,
        position: u32,
        wanted: Option<RequestId>,
    ) -> Result<(), EngineError> {
        let row = self.batch.n_tokens();
        self.wanted.extend(wanted.map(|id| Wanted { row, slot, id }));
        let token = LlamaToken(token.0.cast_signed());
        let sequence = [slot.0.cast_signed()];
        self.batch
            .add(token, position.cast_signed(), &sequence, wanted.is_some())
            .map_err(|error| EngineError::Backend(error.to_string()))
    }

    fn decode(&mut self) -> Result<(), EngineError> {
        let begun = Instant::now();
        let decoded = self.llama.decode(&mut self.batch);
        self.decoding += begun.elapsed().into();
        decoded.map_err(|error| match error {
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

    fn run(&mut self, plan: &StepPlan) -> Result<Vec<Sampled>, EngineError> {
        self.join(plan)?;
        self.fill_batch(plan)?;
        self.decode()?;
        Ok(self.sample())
    }

    /// After a failure nobody knows what the slots of the plan hold: makes them empty.
    fn abandon(&mut self, plan: &StepPlan) {
        let joined = plan.joins.iter().map(|join| join.slot);
        let decoded = plan.decodes.iter().map(|decode| decode.slot);
        let filled = plan.prefills.iter().map(|piece| piece.slot);
        for slot in joined.chain(decoded).chain(filled) {
            self.ledger.forget(slot);
            self.samplers[slot.0 as usize] = None;
            if let Err(error) = self.clear(slot) {
                tracing::error!(%error, "a slot could not be cleared");
            }
        }
    }
}

impl Engine for Context<'_> {
    fn execute(&mut self, plan: &StepPlan) -> Result<StepOutcome, EngineError> {
        let begun = Instant::now();
        self.ledger.note(plan)?;
        match self.run(plan) {
            Ok(sampled) => Ok(StepOutcome { sampled, took: begun.elapsed().into(), lost: Vec::new() }),
            Err(error) => {
                self.abandon(plan);
                Err(error)
            }
        }
    }
}
