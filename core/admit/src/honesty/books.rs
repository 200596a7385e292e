//! Who was promised what, and what came of it.

use super::{Floor, wilson};
use crate::Tier;

/// How full an engine was when a request was let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Load {
    /// At most a quarter of its slots were asked for.
    Light,
    /// At most all of them.
    Busy,
    /// More.
    Full,
}

/// How many of some requests were in time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Coverage {
    /// What was promised.
    pub tier: Tier,
    /// How full the engine was.
    pub load: Load,
    /// Requests that were in time.
    pub kept: u64,
    /// Requests that ended; those whose client left are not counted.
    pub ended: u64,
    /// The 95 % interval of the share that was in time.
    pub interval: (f64, f64),
}

/// What a controller says of itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Honesty {
    /// By tier and load.
    pub coverage: Vec<Coverage>,
    /// Share of promises kept, of all that ended; 1 before any did.
    pub kept: f64,
    /// Share of decisions that refused.
    pub refused: f64,
    /// The share that any rule must refuse; an estimate.
    pub floor: f64,
}

const LOADS: [Load; 3] = [Load::Light, Load::Busy, Load::Full];
const TIERS: [Tier; 2] = [Tier::Promised, Tier::BestEffort];

/// Counts since the start.
#[derive(Clone, Debug, Default)]
pub(crate) struct Books {
    /// Kept and ended, by tier and load.
    counts: [[(u64, u64); 3]; 2],
    pub(crate) floor: Floor,
}

impl Load {
    /// Of an engine with so many requests in its system.
    pub(crate) fn of(requests: u64, slots: u32) -> Self {
        match requests {
            few if few * 4 <= slots.into() => Self::Light,
            some if some <= slots.into() => Self::Busy,
            _ => Self::Full,
        }
    }
}

impl Books {
    pub(crate) fn ended(&mut self, tier: Tier, load: Load, in_time: bool) {
        let count = &mut self.counts[tier as usize][load as usize];
        count.0 += u64::from(in_time);
        count.1 += 1;
    }

    pub(crate) fn honesty(&self, alpha: f64, refused: f64) -> Honesty {
        let cells = TIERS.iter().flat_map(|tier| LOADS.iter().map(move |load| (*tier, *load)));
        let coverage = cells.map(|(tier, load)| {
            let (kept, ended) = self.counts[tier as usize][load as usize];
            Coverage { tier, load, kept, ended, interval: wilson(kept, ended) }
        });
        let promised = &self.counts[Tier::Promised as usize];
        let sum = |of: fn(&(u64, u64)) -> u64| promised.iter().map(of).sum::<u64>();
        let (kept, ended) = (sum(|it| it.0), sum(|it| it.1));
        Honesty {
            coverage: coverage.collect(),
            kept: if ended == 0 { 1.0 } else { kept as f64 / ended as f64 },
            refused,
            floor: self.floor.share(alpha),
        }
    }
}
