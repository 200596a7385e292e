//! The rungs of the ladder, as presets of the scheduler's rules and of a KV core.

use kv::{Kind, Layout, Options};
use sched::{Discipline, Limits};
use units::Span;

/// A rung. Each differs from the one before it in one thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rung {
    /// One request at a time.
    Fifo,
    /// Batches that nobody joins once they run.
    Static,
    /// Requests join and leave between any two steps; each reserves room for the longest answer that anybody
    /// may ask for.
    Continuous,
    /// The same with paged KV and a prefix cache.
    Paged,
}

/// The longest answer that anybody may ask for, for those who reserve room for it.
const OUTPUT_CAP: u32 = 512;
/// Requests of a static batch, and how long the first of them waits.
const BATCH: u32 = 8;
const BATCH_WAIT: Span = Span::from_millis(50);

impl Rung {
    /// All of them, from the bottom.
    pub const ALL: [Self; 4] = [Self::Fifo, Self::Static, Self::Continuous, Self::Paged];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Fifo => "fifo",
            Self::Static => "static",
            Self::Continuous => "continuous",
            Self::Paged => "paged",
        }
    }

    /// `limits` with the rules of this rung.
    #[must_use]
    pub fn limits(self, mut limits: Limits) -> Limits {
        limits.rules.discipline = match self {
            Self::Fifo => Discipline::Fifo,
            Self::Static => Discipline::Static { batch: BATCH, wait: BATCH_WAIT },
            Self::Continuous | Self::Paged => Discipline::Continuous,
        };
        limits.rules.output_cap = match self {
            Self::Continuous => Some(OUTPUT_CAP),
            Self::Fifo | Self::Static | Self::Paged => None,
        };
        limits
    }

    /// The KV core of this rung, with `layout` and `owners` where it keeps prefixes.
    #[must_use]
    pub fn core(self, limits: &Limits, layout: Layout, owners: u32) -> (Kind, Options) {
        let blocks = limits.kv_blocks;
        match self {
            Self::Fifo | Self::Static | Self::Continuous => {
                (Kind::Contiguous, Options { blocks, layout, owners: 0, prefixes: false })
            }
            Self::Paged => (Kind::Paged, Options { blocks, layout, owners, prefixes: owners > 0 }),
        }
    }
}
