//! Measures what a step costs, before the first request.
//!
//! A few synthetic steps through the real engine: prompts, decodes alone and decodes together. A few
//! seconds on a laptop. Of equal steps the fastest counts: whatever else the machine was doing only ever
//! adds. The figures plan the first steps; from then on the gain follows the machine.

use std::{collections::BTreeMap, sync::Arc};

use sample::Sampling;
use sched::{
    Decode, Engine, EngineError, Join, Limits, Prefill, StepCost, StepOutcome, StepPlan, StepShape,
};
use service::clock::Clock;
use units::{RequestId, Slot, Span, Token};

/// Prompt lengths that are measured, those that fit the batch.
const PROMPTS: [u32; 3] = [16, 64, 128];
/// Decode steps that are measured at each width.
const DECODES: u32 = 4;
/// Sequences that decode together.
const WIDTH: u32 = 4;
/// No more steps are begun after this.
const PATIENCE: Span = Span::from_secs(4);

/// Runs the synthetic steps and fits the model to them.
///
/// # Errors
/// The engine failed: it would fail for everybody.
pub(crate) fn measure(
    engine: &mut dyn Engine,
    limits: &Limits,
    clock: &Clock,
) -> Result<StepCost, EngineError> {
    let mut bench = Bench { engine, fastest: BTreeMap::new(), number: 0 };
    let started = clock.now();
    let hurry = || clock.now().since(started) > PATIENCE;
    let fits =
        |tokens: &u32| *tokens <= limits.batch_tokens && *tokens + DECODES <= limits.context_tokens;
    for tokens in PROMPTS.into_iter().filter(fits) {
        if !hurry() {
            bench.prompt(0, tokens)?;
        }
    }
    for width in [1, WIDTH.min(limits.slots)] {
        for slot in 0..width {
            bench.prompt(slot, 1)?;
        }
        for round in 0..DECODES {
            if !hurry() {
                bench.decode(width, 1 + round)?;
            }
        }
    }
    Ok(StepCost::fit(&bench.steps()).unwrap_or_else(|| {
        tracing::warn!(
            "no step costs, as the machine is too busy or the batch too small; beginning with a guess"
        );
        StepCost::GUESS
    }))
}

struct Bench<'a> {
    engine: &'a mut dyn Engine,
    /// By decodes and prompt tokens.
    fastest: BTreeMap<(u32, u32), Span>,
    number: u64,
}

impl Bench<'_> {
    fn steps(&self) -> Vec<(StepShape, Span)> {
        let shape = |&(decodes, prefill)| StepShape { decodes, prefill, cells: 0 };
        self.fastest.iter().map(|(key, took)| (shape(key), *took)).collect()
    }

    /// A prompt of `tokens` on a fresh slot.
    fn prompt(&mut self, slot: u32, tokens: u32) -> Result<(), EngineError> {
        let (slot, id) = (Slot(slot), RequestId(slot.into()));
        let prompt: Arc<[Token]> = vec![Token(0); tokens as usize].into();
        let range = 0..prompt.len();
        let shape = StepShape { prefill: tokens, ..StepShape::default() };
        self.run(StepPlan {
            joins: vec![Join {
                slot,
                id,
                sampling: Sampling::GREEDY,
                history: prompt.clone(),
                sampled: 0,
                top_logprobs: None,
                reuse: None,
            }],
            prefills: vec![Prefill { slot, id, prompt, range, last: true }],
            shape,
            ..StepPlan::default()
        })
    }

    /// One token of the first `width` slots, all at `position`.
    fn decode(&mut self, width: u32, position: u32) -> Result<(), EngineError> {
        let decode = |slot: u32| Decode {
            slot: Slot(slot),
            id: RequestId(slot.into()),
            token: Token(0),
            position,
        };
        self.run(StepPlan {
            decodes: (0..width).map(decode).collect(),
            shape: StepShape { decodes: width, ..StepShape::default() },
            ..StepPlan::default()
        })
    }

    fn run(&mut self, mut plan: StepPlan) -> Result<(), EngineError> {
        self.number += 1;
        plan.number = self.number;
        let StepOutcome { took, .. } = self.engine.execute(&plan)?;
        let key = (plan.shape.decodes, plan.shape.prefill);
        let fastest = self.fastest.entry(key).or_insert(took);
        *fastest = took.min(*fastest);
        Ok(())
    }
}
