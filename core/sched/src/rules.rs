//! How the scheduler chooses: knobs that do not depend on each other. The rungs of the ladder are
//! presets of them.

use units::Span;

use crate::{PlanKey, Tier};

/// The rules that a scheduler plans by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Who may run with whom.
    pub discipline: Discipline,
    /// What goes into a step first.
    pub order: Order,
    /// What best effort takes when it joins. Promised work always takes all that it can ever need.
    pub reservation: Reservation,
    /// Every sequence takes room for this many sampled tokens, whatever its own cap: the slab of a
    /// server that knows only one cap. A request with a larger cap takes room for that.
    pub output_cap: Option<u32>,
    /// What happens to who runs past its deadline.
    pub lateness: Lateness,
    /// Prompts do not make the gap between two tokens of an answer longer than this, as far as it is
    /// predicted: a step beside answers takes no more prompt tokens than that, but never fewer than a
    /// smallest chunk every few steps. None: the bounds of a step are the only ones.
    pub itl: Option<Span>,
}

/// Who may run with whom.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Discipline {
    /// One at a time, in the order of arrival, whatever was promised.
    Fifo,
    /// A batch at a time. Nobody joins a batch that has begun.
    Static {
        /// Requests of a batch, at most: as many as there are slots, if that is fewer. At least 1.
        batch: u32,
        /// A batch begins when it is full, or when the oldest request has waited this long.
        wait: Span,
    },
    /// Whoever finds a slot and blocks joins at the next step.
    #[default]
    Continuous,
}

/// What goes into a step first. Whoever is first in planning order gets a row in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Running answers go on, and prompts take what the step can still afford: even gaps between tokens.
    #[default]
    DecodeFirst,
    /// Prompts are computed, and answers go on when the step can still afford them: early first tokens. With
    /// a target for the gaps between tokens no answer is left out for a prompt, and what remains of this
    /// order is that every step may hold the smallest chunk of a prompt.
    PrefillFirst,
}

/// What best effort takes when it joins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reservation {
    /// All that it can ever need, so that nothing runs out in the middle.
    #[default]
    Full,
    /// Its prompt and one block, and a block more whenever it needs one. When there is none, whoever runs
    /// last in planning order is preempted, and takes all that it can ever need from then on.
    Grow,
}

/// What happens to who runs past its deadline. Who waits past it ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lateness {
    /// It finishes. Promised work does so as best effort: its promise is broken already, and must not cost
    /// those that can still be kept.
    #[default]
    Finish,
    /// Best effort ends; promised work finishes as best effort.
    AbortBestEffort,
    /// It ends.
    AbortAll,
}

/// What becomes of a late sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Late {
    Finishes,
    Demoted,
    Aborted,
}

impl Lateness {
    pub(crate) fn of(self, tier: Tier) -> Late {
        match (self, tier) {
            (Self::Finish, Tier::BestEffort) => Late::Finishes,
            (Self::Finish | Self::AbortBestEffort, Tier::Promised) => Late::Demoted,
            (Self::AbortBestEffort, Tier::BestEffort) | (Self::AbortAll, _) => Late::Aborted,
        }
    }
}

impl Discipline {
    /// Of `free` slots, those that somebody may take while `running` sequences run.
    #[must_use]
    pub fn seats(self, free: u32, running: u32) -> u32 {
        match self {
            Self::Fifo => free.min(1u32.saturating_sub(running)),
            Self::Static { .. } | Self::Continuous => free,
        }
    }

    /// A request's place in the planning order.
    #[must_use]
    pub fn place(self, key: PlanKey) -> PlanKey {
        match self {
            Self::Fifo => {
                PlanKey { tier: Tier::BestEffort, deadline: units::Micros(0), arrival: key.arrival }
            }
            Self::Static { .. } | Self::Continuous => key,
        }
    }
}
