//! Runs synthetic steps through a real engine.
//!
//! A step is asked for by its [`Composition`]; the rig first brings every slot to the depth that it
//! needs, without measuring that. What deep slots hold is computed once and then restored, where the
//! engine keeps prefixes apart from slots; otherwise each slot computes its own.

use std::sync::Arc;

use sample::Sampling;
use sched::{
    Decode, Engine, EngineError, Join, Move, Prefill, Reuse, StepOutcome, StepPlan, StepShape,
};
use units::{Owner, RequestId, Slot, Span, Token};

/// A kept prefix that slots begin with.
const OWNER: Owner = Owner(0);
/// A slot that has grown further than this is brought back to its depth.
const DEPTH_SLACK: u32 = 32;

/// What a step is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Composition {
    /// Tokens that each decoding sequence holds, about.
    pub depth: u32,
    /// Sequences that sample one more token.
    pub decodes: u32,
    /// Prompt tokens, of one sequence more.
    pub prefill: u32,
    /// Tokens that it holds before.
    pub computed: u32,
}

impl Composition {
    /// Slots that it takes.
    #[must_use]
    pub fn slots(&self) -> u32 {
        self.decodes + self.prefill.min(1)
    }

    /// Rows of its step.
    #[must_use]
    pub fn rows(&self) -> u32 {
        self.decodes + self.prefill
    }

    /// Tokens that a slot of it comes to hold at most.
    #[must_use]
    pub fn context(&self) -> u32 {
        (self.depth + DEPTH_SLACK + 1).max(self.computed + self.prefill)
    }
}

/// What an engine can do.
#[derive(Clone, Copy, Debug)]
pub struct Reach {
    /// Slots.
    pub slots: u32,
    /// Tokens that a slot holds.
    pub context_tokens: u32,
    /// Rows of a step.
    pub batch_tokens: u32,
    /// Whether it keeps prefixes apart from its slots, so that those who begin with one share no cells.
    pub keeps: bool,
    /// Ids of tokens are below this.
    pub vocabulary: u32,
}

impl Reach {
    /// Whether it can run such a step.
    #[must_use]
    pub fn holds(&self, wanted: &Composition) -> bool {
        wanted.slots() <= self.slots
            && wanted.rows() <= self.batch_tokens
            && wanted.context() <= self.context_tokens
    }
}

/// A step that was run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// What it really was.
    pub shape: StepShape,
    /// How long it took.
    pub took: Span,
}

/// An engine, and what its slots hold.
pub struct Rig<'a> {
    engine: &'a mut dyn Engine,
    reach: Reach,
    /// Tokens of each slot.
    held: Vec<u32>,
    /// Tokens of the kept prefix.
    kept: u32,
    text: Arc<[Token]>,
    /// Of the last step.
    number: u64,
}

impl<'a> Rig<'a> {
    /// An engine whose slots are empty and that keeps nothing.
    pub fn new(engine: &'a mut dyn Engine, reach: Reach) -> Self {
        let held = vec![0; reach.slots as usize];
        let text = text(reach.vocabulary, reach.context_tokens);
        Self { engine, reach, held, kept: 0, text, number: 0 }
    }

    /// What the engine can do.
    #[must_use]
    pub fn reach(&self) -> &Reach {
        &self.reach
    }

    /// Runs a step of this composition, which must be [within reach](Reach::holds).
    ///
    /// # Errors
    /// The engine failed: it would fail for everybody.
    pub fn run(&mut self, wanted: Composition) -> Result<Measured, EngineError> {
        self.seat()?;
        self.settle(0..wanted.decodes, wanted.depth.max(1), DEPTH_SLACK)?;
        let mut plan = StepPlan::default();
        if wanted.prefill > 0 {
            let slot = wanted.decodes;
            if wanted.computed > 0 {
                self.settle(slot..slot + 1, wanted.computed, 0)?;
            } else {
                plan.joins.push(self.join(slot, None, wanted.prefill));
            }
            plan.prefills.push(self.prefill(slot, wanted.prefill));
        }
        plan.decodes = (0..wanted.decodes).map(|slot| self.decode(slot)).collect();
        plan.shape = shape(&plan);
        let shape = plan.shape;
        let took = self.execute(plan)?.took;
        Ok(Measured { shape, took })
    }

    /// Leaves an engine that holds one token and keeps nothing: somebody else may go on with it.
    ///
    /// # Errors
    /// The engine failed.
    pub fn finish(mut self) -> Result<(), EngineError> {
        let mut plan = StepPlan::default();
        plan.moves.extend((0..self.reach.slots).map(|slot| Move::Leave { slot: Slot(slot) }));
        if self.kept > 0 {
            plan.moves.push(Move::Drop { owner: OWNER });
        }
        // Moves alone make no step.
        plan.joins.push(self.join(0, None, 1));
        plan.prefills.push(self.prefill(0, 1));
        self.execute(plan).map(drop)
    }

    /// Gives every slot a token, once and in their order: an engine may place sequences as they come, and
    /// compute neighbours together.
    fn seat(&mut self) -> Result<(), EngineError> {
        if self.number > 0 {
            return Ok(());
        }
        let slots: Vec<u32> = (0..self.reach.slots).collect();
        slots.chunks(self.reach.batch_tokens as usize).try_for_each(|slots| {
            let joins = slots.iter().map(|slot| self.join(*slot, None, 1)).collect();
            let prefills = slots.iter().map(|slot| self.prefill(*slot, 1)).collect();
            self.execute(StepPlan { joins, prefills, ..StepPlan::default() }).map(drop)
        })
    }

    /// Makes the slots hold `depth` tokens, or up to `slack` more.
    fn settle(
        &mut self,
        slots: std::ops::Range<u32>,
        depth: u32,
        slack: u32,
    ) -> Result<(), EngineError> {
        let settled = |held: u32| (depth..=depth + slack).contains(&held);
        let unsettled: Vec<u32> =
            slots.filter(|slot| !settled(self.held[*slot as usize])).collect();
        if unsettled.is_empty() {
            return Ok(());
        }
        if !self.reach.keeps || depth == 1 {
            return unsettled.into_iter().try_for_each(|slot| self.compute(slot, depth));
        }
        self.keep(depth)?;
        for slots in unsettled.chunks(self.reach.batch_tokens as usize) {
            let mut plan = StepPlan::default();
            for &slot in slots {
                let reuse = Reuse { owner: OWNER, tokens: depth - 1 };
                plan.joins.push(self.join(slot, Some(reuse), depth));
                plan.prefills.push(self.prefill(slot, 1));
            }
            self.execute(plan)?;
        }
        Ok(())
    }

    /// Makes the owner keep at least `depth` tokens.
    fn keep(&mut self, depth: u32) -> Result<(), EngineError> {
        if self.kept >= depth {
            return Ok(());
        }
        self.compute(0, depth)?;
        let keep = Move::Keep { slot: Slot(0), owner: OWNER, tokens: depth };
        let drop = (self.kept > 0).then_some(Move::Drop { owner: OWNER });
        let moves = drop.into_iter().chain([keep]).collect();
        // Moves alone make no step.
        let decodes = vec![self.decode(0)];
        self.execute(StepPlan { moves, decodes, ..StepPlan::default() })?;
        self.kept = depth;
        Ok(())
    }

    /// The slot computes what it lacks of `depth` tokens, or all of them if it holds more.
    fn compute(&mut self, slot: u32, depth: u32) -> Result<(), EngineError> {
        if self.held[slot as usize] > depth {
            self.held[slot as usize] = 0;
        }
        loop {
            let held = self.held[slot as usize];
            if held == depth {
                return Ok(());
            }
            let tokens = (depth - held).min(self.reach.batch_tokens);
            let joins = if held == 0 { vec![self.join(slot, None, tokens)] } else { Vec::new() };
            let prefills = vec![self.prefill(slot, tokens)];
            self.execute(StepPlan { joins, prefills, ..StepPlan::default() })?;
        }
    }

    /// A sequence of so many tokens begins in the slot, with what it reuses.
    fn join(&mut self, slot: u32, reuse: Option<Reuse>, tokens: u32) -> Join {
        self.held[slot as usize] = reuse.map_or(0, |reuse| reuse.tokens);
        Join {
            slot: Slot(slot),
            id: RequestId(slot.into()),
            sampling: Sampling::GREEDY,
            history: self.text[..tokens as usize].into(),
            sampled: 0,
            top_logprobs: None,
            reuse,
        }
    }

    /// The next `tokens` of a slot. Its prompt ends with them, as in most steps that have one.
    fn prefill(&mut self, slot: u32, tokens: u32) -> Prefill {
        let held = &mut self.held[slot as usize];
        let range = *held as usize..(*held + tokens) as usize;
        *held += tokens;
        let prompt = self.text[..range.end].into();
        Prefill { slot: Slot(slot), id: RequestId(slot.into()), prompt, range, last: true }
    }

    fn decode(&mut self, slot: u32) -> Decode {
        let held = &mut self.held[slot as usize];
        let position = *held;
        *held += 1;
        let token = self.text[position as usize];
        Decode { slot: Slot(slot), id: RequestId(slot.into()), token, position }
    }

    fn execute(&mut self, mut plan: StepPlan) -> Result<StepOutcome, EngineError> {
        self.number += 1;
        plan.number = self.number;
        self.engine.execute(&plan)
    }
}

/// The shape that a scheduler would give the plan.
fn shape(plan: &StepPlan) -> StepShape {
    let count = |rows: usize| u32::try_from(rows).expect("a step has few rows");
    let attended = |range: std::ops::Range<usize>| (range.start + 1..=range.end).sum::<usize>();
    let decoded = plan.decodes.iter().map(|it| u64::from(it.position) + 1).sum::<u64>();
    let filled = plan.prefills.iter().map(|it| attended(it.range.clone()) as u64).sum::<u64>();
    StepShape {
        decodes: count(plan.decodes.len()),
        prefill: count(plan.prefills.iter().map(|it| it.range.len()).sum()),
        cells: decoded + filled,
        prefill_cells: filled,
    }
}

/// Tokens from all over the vocabulary, so that a mixture of experts works as it does on text.
fn text(vocabulary: u32, tokens: u32) -> Arc<[Token]> {
    let token = |at: u32| Token(at.wrapping_mul(2_654_435_761) % vocabulary.max(1));
    (0..tokens).map(token).collect()
}

#[cfg(test)]
mod tests {
    use sched::{Answers, MockEngine, StepCost};

    use super::*;

    fn reach(keeps: bool) -> Reach {
        Reach { slots: 4, context_tokens: 256, batch_tokens: 64, keeps, vocabulary: 50 }
    }

    /// The mock is as strict about plans as llama.cpp.
    #[test]
    fn steps_are_what_was_asked_for() {
        for keeps in [true, false] {
            let answers = Answers { words: 1..9, end: Token(0), tokens: 0 };
            let mut engine = MockEngine::new(4, StepCost::GUESS, answers);
            let mut rig = Rig::new(&mut engine, reach(keeps));
            let one = |decodes, depth, prefill, computed| Composition {
                decodes,
                depth,
                prefill,
                computed,
            };
            for (wanted, cells) in [
                (one(1, 16, 0, 0), 17),
                (one(1, 16, 0, 0), 18),
                (one(3, 100, 0, 0), 303),
                (one(0, 0, 60, 0), 1_830),
                (one(2, 100, 60, 130), 101 + 101 + 60 * 130 + 1_830),
                (one(4, 1, 0, 0), 8),
            ] {
                let Measured { shape, took } = rig.run(wanted).expect("fit");
                assert_eq!((shape.decodes, shape.prefill), (wanted.decodes, wanted.prefill));
                let drift = u64::from(wanted.decodes * (DEPTH_SLACK + 1));
                assert!((cells..=cells + drift).contains(&shape.cells), "{wanted:?}: {shape:?}");
                assert_eq!(took, StepCost::GUESS.predict(shape));
            }
            rig.finish().expect("fit");
            let mut again = Rig::new(&mut engine, reach(keeps));
            again.run(one(3, 100, 0, 0)).expect("nothing is in the way");
        }
    }

    #[test]
    fn reach_is_slots_rows_and_context() {
        let holds = |composition| reach(true).holds(&composition);
        let decodes = |decodes, depth| Composition { decodes, depth, ..Composition::default() };
        assert!(holds(decodes(4, 200)) && !holds(decodes(5, 1)) && !holds(decodes(1, 250)));
        let prompt = |decodes, prefill, computed| Composition {
            decodes,
            prefill,
            computed,
            ..Composition::default()
        };
        assert!(holds(prompt(3, 61, 0)) && !holds(prompt(3, 62, 0)));
        assert!(!holds(prompt(4, 1, 0)) && !holds(prompt(0, 57, 200)));
    }
}
