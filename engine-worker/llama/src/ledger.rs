//! What every slot holds, and whether a plan goes on from there.
//!
//! Kept beside llama.cpp, because asking it about a wrong plan is already too late.

use sched::{Decode, EngineError, Join, Prefill, StepPlan};
use units::{Slot, Token};

/// Limits of the backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Slots, which are numbered from 0.
    pub(crate) slots: u32,
    /// Tokens that a slot holds at most.
    pub(crate) context_tokens: u32,
    /// Rows of a step at most.
    pub(crate) rows: usize,
    /// Ids of tokens are below this.
    pub(crate) vocabulary: usize,
}

/// How many tokens each slot holds; nothing of a slot that no sequence has joined.
#[derive(Clone, Debug)]
pub(crate) struct Ledger {
    limits: Limits,
    held: Vec<Option<u32>>,
    /// What will be held after the plan that is being checked.
    planned: Vec<Option<u32>>,
}

impl Ledger {
    /// All slots empty.
    pub(crate) fn new(limits: Limits) -> Self {
        let empty = vec![None; limits.slots as usize];
        Self { limits, held: empty.clone(), planned: empty }
    }

    /// Checks `plan` and takes note of what the slots hold after it.
    ///
    /// # Errors
    /// [`EngineError::Unfit`]; then nothing is noted.
    pub(crate) fn note(&mut self, plan: &StepPlan) -> Result<(), EngineError> {
        self.planned.clone_from(&self.held);
        self.check(plan).map_err(EngineError::Unfit)?;
        std::mem::swap(&mut self.held, &mut self.planned);
        Ok(())
    }

    /// The slot holds nothing that can be relied on, and its sequence has ended.
    pub(crate) fn forget(&mut self, slot: Slot) {
        self.held[slot.0 as usize] = None;
    }

    fn check(&mut self, plan: &StepPlan) -> Result<(), String> {
        if plan.is_empty() || plan.rows() > self.limits.rows {
            return Err(format!("{} rows, and 1 to {} fit", plan.rows(), self.limits.rows));
        }
        plan.joins.iter().try_for_each(|join| self.join(join))?;
        plan.decodes.iter().try_for_each(|decode| self.decode(decode))?;
        plan.prefills.iter().try_for_each(|piece| self.prefill(piece))
    }

    fn join(&mut self, join: &Join) -> Result<(), String> {
        join.sampling.validate(self.limits.vocabulary).map_err(|error| error.to_string())?;
        *self.slot(join.slot)? = Some(0);
        Ok(())
    }

    fn decode(&mut self, decode: &Decode) -> Result<(), String> {
        self.extend(decode.slot, decode.position as usize, &[decode.token])
    }

    fn prefill(&mut self, piece: &Prefill) -> Result<(), String> {
        let range = piece.range.clone();
        let tokens = piece.prompt.get(range.clone()).unwrap_or_default();
        if tokens.is_empty() {
            return Err(format!("piece {range:?} of a prompt of {}", piece.prompt.len()));
        }
        if piece.last != (range.end == piece.prompt.len()) {
            return Err(format!("piece {range:?} is wrong about where the prompt ends"));
        }
        self.extend(piece.slot, range.start, tokens)
    }

    fn extend(&mut self, slot: Slot, position: usize, tokens: &[Token]) -> Result<(), String> {
        let limits = self.limits;
        if let Some(token) = tokens.iter().find(|token| token.0 as usize >= limits.vocabulary) {
            return Err(format!("token {} of a vocabulary of {}", token.0, limits.vocabulary));
        }
        let planned = self.slot(slot)?;
        let held = planned.ok_or_else(|| format!("slot {} belongs to nobody", slot.0))?;
        if position != held as usize {
            return Err(format!("position {position} in slot {}, which holds {held}", slot.0));
        }
        let end = position + tokens.len();
        let fitting = u32::try_from(end).ok().filter(|&end| end <= limits.context_tokens);
        *planned = Some(
            fitting
                .ok_or_else(|| format!("{end} tokens in a slot of {}", limits.context_tokens))?,
        );
        Ok(())
    }

    fn slot(&mut self, slot: Slot) -> Result<&mut Option<u32>, String> {
        let slots = self.limits.slots;
        self.planned.get_mut(slot.0 as usize).ok_or_else(|| format!("slot {} of {slots}", slot.0))
    }
}

#[cfg(test)]
mod tests;
