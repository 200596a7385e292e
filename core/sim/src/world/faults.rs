//! Faults begin, and what they do to messages.

use units::Span;

use super::World;
use crate::fault::{Fault, FaultKind, Link};

impl World<'_> {
    pub(super) fn fault(&mut self, number: usize) {
        let Fault { kind, .. } = self.scenario.faults[number];
        let engines = self.engines.len();
        match kind {
            FaultKind::EngineDies { engine, down } if engine < engines => {
                self.kill_engine(engine, down)
            }
            FaultKind::EngineFreezes { engine, still } if engine < engines => {
                let frozen = &mut self.engines[engine].frozen_until;
                *frozen = (self.now + still).max(*frozen);
                self.auditor.engine_freezes(engine, *frozen);
            }
            FaultKind::StepsFail { engine, steps } if engine < engines => {
                if let Some(running) = &mut self.engines[engine].running {
                    running.backend.failing = steps;
                }
            }
            FaultKind::AdmissionDies { down } => self.kill_admission(down),
            FaultKind::AdmissionClockJumps { by } => {
                self.admission.jumped += by;
                self.auditor.clock_jumps(by);
                self.hurry_admission();
            }
            FaultKind::Lost { .. }
            | FaultKind::Late { .. }
            | FaultKind::EngineDies { .. }
            | FaultKind::EngineFreezes { .. }
            | FaultKind::StepsFail { .. } => {}
        }
    }

    /// How much later what is sent now on `link` arrives; nothing if it never does.
    pub(super) fn lateness(&self, link: Link) -> Option<Span> {
        let mut late = Span::ZERO;
        for fault in &self.scenario.faults {
            let (on, lasts, by) = match fault.kind {
                FaultKind::Lost { link, lasts } => (link, lasts, None),
                FaultKind::Late { link, lasts, by } => (link, lasts, Some(by)),
                FaultKind::EngineDies { .. }
                | FaultKind::EngineFreezes { .. }
                | FaultKind::StepsFail { .. }
                | FaultKind::AdmissionDies { .. }
                | FaultKind::AdmissionClockJumps { .. } => continue,
            };
            if on != link || self.now < fault.at || self.now >= fault.at + lasts {
                continue;
            }
            late += by?;
        }
        Some(late)
    }
}
