//! Whether a plan goes on from what the mock holds: checked as a whole before anything is done.

use std::collections::BTreeMap;

use units::{Owner, RequestId, Slot, Token};

use super::{MockEngine, Stream, answers::then};
use crate::{Decode, EngineError, Join, Move, Prefill, Reuse, StepPlan};

/// What is held while a plan is checked.
pub(super) struct Ledger<'a> {
    streams: &'a [Stream],
    /// Who owns each slot, how many tokens it holds, and whether the plan has a row of it.
    slots: Vec<(Option<RequestId>, usize, bool)>,
    /// Digests of what owners keep.
    kept: BTreeMap<Owner, &'a [u64]>,
}

impl<'a> Ledger<'a> {
    pub(super) fn new(engine: &'a MockEngine) -> Self {
        let slots = engine.streams.iter().map(|it| (it.id, it.digests.len(), false));
        let kept = engine.kept.iter().map(|(&owner, digests)| (owner, digests.as_slice()));
        Self { streams: &engine.streams, slots: slots.collect(), kept: kept.collect() }
    }

    /// # Errors
    /// [`EngineError::Unfit`], with the first thing that is wrong.
    pub(super) fn check(mut self, plan: &StepPlan) -> Result<(), EngineError> {
        self.all(plan).map_err(EngineError::Unfit)
    }

    fn all(&mut self, plan: &StepPlan) -> Result<(), String> {
        if plan.is_empty() {
            return Err("a step without rows".into());
        }
        plan.moves.iter().try_for_each(|made| self.make(*made))?;
        plan.joins.iter().try_for_each(|join| self.join(join))?;
        plan.decodes.iter().try_for_each(|decode| self.decode(decode))?;
        plan.prefills.iter().try_for_each(|piece| self.prefill(piece))
    }

    fn make(&mut self, made: Move) -> Result<(), String> {
        match made {
            Move::Keep { slot, owner, tokens } => {
                let left = |slot: &Slot| self.slots[slot.0 as usize].1 == 0;
                let held = self.streams.get(slot.0 as usize).map(|it| it.digests.as_slice());
                let held = held.filter(|_| !left(&slot));
                let part = held.and_then(|held| held.get(..tokens as usize));
                let part = part.filter(|part| !part.is_empty());
                let part = part.ok_or_else(|| format!("slot {} has no {tokens} tokens", slot.0))?;
                match self.kept.insert(owner, part) {
                    Some(_) => Err(format!("owner {} keeps something already", owner.0)),
                    None => Ok(()),
                }
            }
            Move::Cut { owner, tokens } => {
                let kept = self.kept(owner)?;
                let fewer = kept.get(..tokens as usize);
                let fewer = fewer.filter(|fewer| !fewer.is_empty() && fewer.len() < kept.len());
                let fewer =
                    fewer.ok_or_else(|| format!("{tokens} tokens are no cut of {}", kept.len()))?;
                self.kept.insert(owner, fewer);
                Ok(())
            }
            Move::Drop { owner } => {
                self.kept(owner)?;
                self.kept.remove(&owner);
                Ok(())
            }
            Move::Leave { slot } => {
                let held = self.slots.get_mut(slot.0 as usize);
                *held.ok_or_else(|| format!("there is no slot {}", slot.0))? = (None, 0, false);
                Ok(())
            }
        }
    }

    fn join(&mut self, join: &Join) -> Result<(), String> {
        let found = join.reuse.map_or(Ok(0), |reuse| self.reuse(join, reuse))?;
        let slot = self.slots.get_mut(join.slot.0 as usize);
        let slot = slot.ok_or_else(|| format!("there is no slot {}", join.slot.0))?;
        *slot = (Some(join.id), found, false);
        Ok(())
    }

    /// How many tokens a join need not compute, if they are the very tokens that the owner keeps.
    fn reuse(&self, join: &Join, reuse: Reuse) -> Result<usize, String> {
        let Reuse { owner, tokens } = reuse;
        let (kept, tokens) = (self.kept(owner)?, tokens as usize);
        if tokens == 0 || tokens >= join.history.len() || tokens > kept.len() {
            let (all, kept) = (join.history.len(), kept.len());
            return Err(format!("{tokens} of {all} tokens reused from an owner of {kept}"));
        }
        let digest = join.history[..tokens].iter().fold(0, |digest, &token| then(digest, token));
        if digest != kept[tokens - 1] {
            return Err(format!("owner {} keeps other tokens than those of {}", owner.0, join.id));
        }
        Ok(tokens)
    }

    fn kept(&self, owner: Owner) -> Result<&'a [u64], String> {
        self.kept.get(&owner).copied().ok_or_else(|| format!("owner {} keeps nothing", owner.0))
    }

    fn decode(&mut self, decode: &Decode) -> Result<(), String> {
        self.row(decode.slot, decode.id, decode.position as usize, &[decode.token])
    }

    fn prefill(&mut self, piece: &Prefill) -> Result<(), String> {
        let range = piece.range.clone();
        let tokens = piece.prompt.get(range.clone()).unwrap_or_default();
        if tokens.is_empty() || piece.last != (range.end == piece.prompt.len()) {
            return Err(format!("piece {range:?} of a prompt of {}", piece.prompt.len()));
        }
        self.row(piece.slot, piece.id, range.start, tokens)
    }

    fn row(
        &mut self,
        slot: Slot,
        id: RequestId,
        position: usize,
        tokens: &[Token],
    ) -> Result<(), String> {
        let at = slot.0;
        let held =
            self.slots.get_mut(at as usize).ok_or_else(|| format!("there is no slot {at}"))?;
        let (owner, computed, has_row) = held;
        if *owner != Some(id) || *has_row {
            return Err(format!("slot {at} does not belong to {id}, or has a row already"));
        }
        if *computed != position {
            return Err(format!("position {position} does not follow {computed} tokens"));
        }
        *computed += tokens.len();
        *has_row = true;
        Ok(())
    }
}
