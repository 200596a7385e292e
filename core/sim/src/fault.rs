//! What goes wrong in a run: all of it has to be borne.

use units::{Micros, Span};

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// When it begins.
    pub at: Micros,
    /// What it is.
    pub kind: FaultKind,
}

/// Kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The process of an engine is killed, and another takes its place.
    EngineDies {
        /// Which.
        engine: usize,
        /// How long there is none.
        down: Span,
    },
    /// The process of an engine stands still. Its clock goes on.
    EngineFreezes {
        /// Which.
        engine: usize,
        /// For how long.
        still: Span,
    },
    /// The backend of an engine fails.
    StepsFail {
        /// Which.
        engine: usize,
        /// So many steps, from the next one on.
        steps: u32,
    },
    /// The admission service is killed, and another takes its place.
    AdmissionDies {
        /// How long there is none.
        down: Span,
    },
    /// What is sent is not delivered, and nobody is told.
    Lost {
        /// Where.
        link: Link,
        /// For how long.
        lasts: Span,
    },
    /// What is sent takes longer.
    Late {
        /// Where.
        link: Link,
        /// For how long.
        lasts: Span,
        /// By so much.
        by: Span,
    },
    /// The clock of the admission service jumps forwards, as after a pause of its virtual machine.
    AdmissionClockJumps {
        /// By so much.
        by: Span,
    },
}

impl Fault {
    /// When it is over.
    #[must_use]
    pub fn ends_at(&self) -> Micros {
        let lasts = match self.kind {
            FaultKind::EngineDies { down, .. } | FaultKind::AdmissionDies { down } => down,
            FaultKind::EngineFreezes { still, .. } => still,
            FaultKind::Lost { lasts, .. } => lasts,
            FaultKind::Late { lasts, by, .. } => lasts + by,
            FaultKind::StepsFail { .. } | FaultKind::AdmissionClockJumps { .. } => Span::ZERO,
        };
        self.at + lasts
    }
}

/// A connection between two processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Link {
    /// Engine and admission.
    Watch(usize),
    /// Gateway and admission.
    Decide,
    /// Gateway and engine.
    Generate(usize),
}
