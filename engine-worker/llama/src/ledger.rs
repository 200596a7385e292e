//! What every slot holds and every owner keeps, and whether a plan goes on from there.
//!
//! Kept beside llama.cpp, because asking it about a wrong plan is already too late.

use sched::{Decode, EngineError, Join, Move, Prefill, Reuse, StepPlan};
use units::{Owner, Slot, Token};

use self::cells::Cells;

mod cells;

/// Limits of the backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Slots, which are numbered from 0.
    pub(crate) slots: u32,
    /// Owners, likewise.
    pub(crate) owners: u32,
    /// Tokens that a slot holds at most.
    pub(crate) context_tokens: u32,
    /// Cells that slots and owners share, unless each slot has cells of its own.
    pub(crate) cells: Option<u32>,
    /// Rows of a step at most.
    pub(crate) rows: usize,
    /// Ids of tokens are below this.
    pub(crate) vocabulary: usize,
}

/// Checks plans, and knows what they lead to.
#[derive(Debug)]
pub(crate) struct Ledger {
    limits: Limits,
    held: Held,
    /// What will be held after the plan that is being checked.
    planned: Held,
}

/// What slots hold and owners keep.
#[derive(Debug)]
struct Held {
    /// Tokens of each slot; nothing of a slot that no sequence has joined.
    slots: Vec<Option<u32>>,
    /// Tokens of each owner; 0 if it keeps nothing.
    owners: Vec<u32>,
    /// Of one pool.
    cells: Option<Cells>,
}

impl Held {
    fn new(limits: Limits) -> Self {
        Self {
            slots: vec![None; limits.slots as usize],
            owners: vec![0; limits.owners as usize],
            cells: limits.cells.map(|_| Cells::new(limits.slots, limits.owners)),
        }
    }

    /// Becomes what `other` is, in its own memory.
    fn copy_from(&mut self, other: &Self) {
        self.slots.clone_from(&other.slots);
        self.owners.clone_from(&other.owners);
        if let (Some(cells), Some(other)) = (&mut self.cells, &other.cells) {
            cells.copy_from(other);
        }
    }
}

impl Ledger {
    /// All slots empty, and nothing kept.
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, held: Held::new(limits), planned: Held::new(limits) }
    }

    /// Checks `plan` and takes note of what is held after it.
    ///
    /// # Errors
    /// [`EngineError::Unfit`]; then nothing is noted.
    pub(crate) fn note(&mut self, plan: &StepPlan) -> Result<(), EngineError> {
        self.planned.copy_from(&self.held);
        self.check(plan).map_err(EngineError::Unfit)?;
        std::mem::swap(&mut self.held, &mut self.planned);
        Ok(())
    }

    /// The slot holds nothing that can be relied on, and its sequence has ended.
    pub(crate) fn forget(&mut self, slot: Slot) {
        self.held.slots[slot.0 as usize] = None;
        if let Some(cells) = &mut self.held.cells {
            cells.clear(slot);
        }
    }

    /// What the owner kept is gone.
    pub(crate) fn lose(&mut self, owner: Owner) {
        self.held.owners[owner.0 as usize] = 0;
        if let Some(cells) = &mut self.held.cells {
            cells.give_up(owner);
        }
    }

    fn check(&mut self, plan: &StepPlan) -> Result<(), String> {
        if plan.is_empty() || plan.rows() > self.limits.rows {
            return Err(format!("{} rows, and 1 to {} fit", plan.rows(), self.limits.rows));
        }
        plan.moves.iter().try_for_each(|&one| match one {
            Move::Keep { slot, owner, tokens } => self.keep(slot, owner, tokens),
            Move::Cut { owner, tokens } => self.cut(owner, tokens),
            Move::Drop { owner } => self.give_up(owner),
            Move::Leave { slot } => self.leave(slot),
        })?;
        plan.joins.iter().try_for_each(|join| self.join(join))?;
        plan.decodes.iter().try_for_each(|decode| self.decode(decode))?;
        plan.prefills.iter().try_for_each(|piece| self.prefill(piece))?;
        self.fit_cells()
    }

    fn keep(&mut self, slot: Slot, owner: Owner, tokens: u32) -> Result<(), String> {
        let held = self.held_by(slot)?;
        let kept = self.owner(owner)?;
        if *kept > 0 {
            return Err(format!("owner {} keeps {kept} tokens already", owner.0));
        }
        if !(1..=held).contains(&tokens) {
            return Err(format!("{tokens} tokens kept of slot {}, which holds {held}", slot.0));
        }
        *kept = tokens;
        if let Some(cells) = &mut self.planned.cells {
            cells.keep(slot, owner, tokens);
        }
        Ok(())
    }

    fn cut(&mut self, owner: Owner, tokens: u32) -> Result<(), String> {
        let kept = self.owner(owner)?;
        if !(1..*kept).contains(&tokens) {
            return Err(format!("owner {} is cut to {tokens} tokens and keeps {kept}", owner.0));
        }
        *kept = tokens;
        if let Some(cells) = &mut self.planned.cells {
            cells.cut(owner, tokens);
        }
        Ok(())
    }

    /// Of an owner that keeps nothing too: whoever cannot know what is kept may drop everything.
    fn give_up(&mut self, owner: Owner) -> Result<(), String> {
        *self.owner(owner)? = 0;
        if let Some(cells) = &mut self.planned.cells {
            cells.give_up(owner);
        }
        Ok(())
    }

    /// Of a slot that nobody joined too.
    fn leave(&mut self, slot: Slot) -> Result<(), String> {
        *self.slot(slot)? = None;
        if let Some(cells) = &mut self.planned.cells {
            cells.clear(slot);
        }
        Ok(())
    }

    fn join(&mut self, join: &Join) -> Result<(), String> {
        join.sampling.validate(self.limits.vocabulary).map_err(|error| error.to_string())?;
        if let Some(reuse) = join.reuse {
            self.reuse(reuse, join.history.len())?;
        }
        *self.slot(join.slot)? = Some(join.reuse.map_or(0, |reuse| reuse.tokens));
        if let Some(cells) = &mut self.planned.cells {
            cells.begin(join.slot, join.reuse.map(|reuse| (reuse.owner, reuse.tokens)));
        }
        Ok(())
    }

    fn reuse(&mut self, Reuse { owner, tokens }: Reuse, history: usize) -> Result<(), String> {
        let kept = *self.owner(owner)?;
        if !(1..=kept).contains(&tokens) {
            return Err(format!("{tokens} tokens reused of owner {}, which keeps {kept}", owner.0));
        }
        if tokens as usize >= history {
            return Err(format!("{tokens} tokens reused of a history of {history}"));
        }
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
        let held = self.held_by(slot)?;
        if position != held as usize {
            return Err(format!("position {position} in slot {}, which holds {held}", slot.0));
        }
        let end = position + tokens.len();
        let fitting = u32::try_from(end).ok().filter(|&end| end <= limits.context_tokens);
        let end = fitting
            .ok_or_else(|| format!("{end} tokens in a slot of {}", limits.context_tokens))?;
        *self.slot(slot)? = Some(end);
        if let Some(cells) = &mut self.planned.cells {
            cells.extend(slot, end - held);
        }
        Ok(())
    }

    fn fit_cells(&self) -> Result<(), String> {
        let (Some(exist), Some(cells)) = (self.limits.cells, &self.planned.cells) else {
            return Ok(());
        };
        let used = cells.used();
        let fits = used <= u64::from(exist);
        if fits { Ok(()) } else { Err(format!("{used} cells in use, and {exist} exist")) }
    }

    fn held_by(&mut self, slot: Slot) -> Result<u32, String> {
        self.slot(slot)?.ok_or_else(|| format!("slot {} belongs to nobody", slot.0))
    }

    fn slot(&mut self, slot: Slot) -> Result<&mut Option<u32>, String> {
        let (planned, slots) = (&mut self.planned.slots, self.limits.slots);
        planned.get_mut(slot.0 as usize).ok_or_else(|| format!("slot {} of {slots}", slot.0))
    }

    fn owner(&mut self, owner: Owner) -> Result<&mut u32, String> {
        let (planned, owners) = (&mut self.planned.owners, self.limits.owners);
        planned.get_mut(owner.0 as usize).ok_or_else(|| format!("owner {} of {owners}", owner.0))
    }
}

#[cfg(test)]
mod plans;
#[cfg(test)]
mod tests;
