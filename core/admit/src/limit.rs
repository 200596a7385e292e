//! The policies `limit` and `off`: bounds on what is in the system.
//!
//! They look at sizes, not at time, and so they promise nothing: everybody is let in as best effort,
//! and hears so. An idle engine lets one request in whatever the bounds are, because only work that
//! completes can ever make room; a request that the engine cannot physically hold is no choice.

use crate::{Cause, Choice, Decision, EngineLimits, Problem, Shortage, Tier, Totals, entry::Size};

/// Configured bounds; 0 derives one from the engine's own limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Requests in the system. Derived: twice the engine's slots, so that a slot that becomes free is
    /// filled at once and nobody queues behind more than one round. Never more than the slots and the
    /// queue of the engine.
    pub requests: u64,
    /// Prompts and caps in the system. Derived: twice what the KV cache holds. As KV blocks are
    /// bounded too, this matters where most of the prompts is shared.
    pub tokens: u64,
    /// KV blocks of everything in the system, in the worst case. Derived: all of them, so that
    /// whatever was let in can run to its cap without anybody being preempted.
    pub blocks: u64,
}

/// Bounds in force for one engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    requests: u64,
    tokens: u64,
    blocks: u64,
}

impl Limits {
    pub(crate) fn bounds(&self, engine: &EngineLimits) -> Bounds {
        let or = |configured, derived| if configured == 0 { derived } else { configured };
        let memory = Bounds::memory(engine);
        Bounds {
            requests: or(self.requests, 2 * u64::from(engine.slots)).min(memory.requests),
            tokens: or(self.tokens, 2 * u64::from(engine.kv.tokens().0)),
            blocks: or(self.blocks, u64::from(engine.kv.0)),
        }
    }
}

impl Bounds {
    /// What the engine can hold at all.
    pub(crate) fn memory(engine: &EngineLimits) -> Self {
        Self {
            requests: u64::from(engine.slots) + u64::from(engine.waiting),
            tokens: u64::MAX,
            blocks: u64::MAX,
        }
    }
}

/// Lets the request in where it is done soonest, going by the work in the system.
pub(crate) fn decide(problem: &Problem<'_>, bounds: impl Fn(&Choice<'_>) -> Bounds) -> Decision {
    let mut best: Option<(f64, Result<usize, Shortage>)> = None;
    for (index, choice) in problem.choices.iter().enumerate() {
        let size = problem.size(choice);
        let found = match shortage(size, choice, bounds(choice)) {
            None => Ok(index),
            Some(shortage) => Err(Shortage { choice: index, ..shortage }),
        };
        let wait = backlog_s(size, choice);
        let better = best
            .as_ref()
            .is_none_or(|(best_wait, best)| (found.is_err(), wait) < (best.is_err(), *best_wait));
        if better {
            best = Some((wait, found));
        }
    }
    match best.expect("a problem has a choice").1 {
        Ok(choice) => Decision::Admit {
            choice,
            tier: Tier::BestEffort,
            bound: None,
            confidence: None,
            evict: Vec::new(),
            propensity: 1.0,
        },
        Err(shortage) => Decision::Wait(shortage),
    }
}

/// Seconds until the engine has done what it has and this.
fn backlog_s(size: Size, choice: &Choice<'_>) -> f64 {
    let own = size.tokens().saturating_sub(u64::from(size.cached.0));
    (choice.engine.totals.work + own) as f64 / choice.engine.rate
}

fn shortage(size: Size, choice: &Choice<'_>, bounds: Bounds) -> Option<Shortage> {
    let engine = &choice.engine;
    let totals = engine.totals;
    if totals.requests == 0 {
        return None;
    }
    let tokens_room = bounds.tokens.saturating_sub(totals.tokens);
    let blocks_room = blocks_room(choice, bounds);
    let (tokens, blocks) = (size.tokens(), u64::from(size.blocks().0));
    let shortfall = Totals {
        requests: (totals.requests + 1).saturating_sub(bounds.requests),
        tokens: tokens.saturating_sub(tokens_room),
        blocks: blocks.saturating_sub(blocks_room),
        ..Totals::default()
    };
    let cause = if shortfall.requests > 0 {
        Cause::Requests { in_system: totals.requests, limit: bounds.requests }
    } else if shortfall.tokens > 0 {
        Cause::Tokens { needed: tokens, in_system: totals.tokens, limit: bounds.tokens }
    } else if shortfall.blocks > 0 {
        Cause::Kv { needed: blocks, room: blocks_room }
    } else {
        return None;
    };
    let max_tokens_that_fit =
        if shortfall.requests > 0 { None } else { cap_that_fits(size, tokens_room, blocks_room) };
    Some(Shortage { choice: 0, cause, shortfall, max_tokens_that_fit, wait: None })
}

/// KV blocks that nobody has and nobody was told to have. The engine's own count of what is free sees
/// shared blocks that the sum of the worst cases does not; the sum sees leases that the engine does
/// not. Both have to agree. Where no bound but memory is set, only the request alone has to fit.
fn blocks_room(choice: &Choice<'_>, bounds: Bounds) -> u64 {
    if bounds.blocks == u64::MAX {
        return u64::MAX;
    }
    let totals = choice.engine.totals;
    let by_sum = bounds.blocks.saturating_sub(totals.blocks);
    let by_engine = choice.engine.room.saturating_sub(totals.growth);
    by_sum.min(by_engine)
}

/// The largest cap that fits into both kinds of room.
pub(crate) fn cap_that_fits(size: Size, tokens_room: u64, blocks_room: u64) -> Option<u32> {
    let prompt = u64::from(size.prompt.0);
    let block_tokens = u64::from(units::BLOCK_TOKENS);
    let by_blocks =
        blocks_room.saturating_mul(block_tokens).saturating_add(u64::from(size.cached.0));
    let cap = tokens_room.min(by_blocks).saturating_sub(prompt);
    let cap = u32::try_from(cap).unwrap_or(u32::MAX).min(size.max_tokens.0);
    (cap > 0).then_some(cap)
}
