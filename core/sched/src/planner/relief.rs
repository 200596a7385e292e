//! Who has to go so that others can go on.

use units::BlockCount;

use super::{Cause, Helper, Running, StepProblem, Waiting};
use crate::{Discipline, Tier};

/// Who is preempted, and what there is to give away afterwards.
pub(super) struct Relief {
    pub(super) preempts: Vec<(usize, Cause)>,
    /// Those of `running` below it stay.
    pub(super) staying: usize,
    /// Decodes that find no block although nobody is left to give one.
    pub(super) stuck: Vec<usize>,
    /// Slots that requests may take.
    pub(super) slots: u32,
    /// Blocks that requests may take, after those that decodes grow by.
    pub(super) blocks: BlockCount,
}

impl Relief {
    pub(super) fn find(problem: &StepProblem, discipline: Discipline) -> Self {
        let mut relief = Self {
            preempts: Vec::new(),
            staying: problem.running.len(),
            stuck: Vec::new(),
            slots: problem.free_slots,
            blocks: problem.free_blocks,
        };
        relief.grow(&problem.running);
        if discipline == Discipline::Continuous {
            relief.keep_the_first_promise(problem);
        }
        relief
    }

    /// Gives every decode the blocks that it needs, at the expense of best effort behind it. The first of
    /// all loses nothing to others, so that somebody always gets to an end.
    fn grow(&mut self, running: &[Running]) {
        let mut at = 0;
        while at < self.staying {
            let needed = running[at].grows;
            while needed > self.blocks && at < self.staying && self.staying > 1 {
                self.preempt_last(running, Cause::Pressure);
            }
            if at < self.staying {
                match needed > self.blocks {
                    true => self.stuck.push(at),
                    false => self.blocks -= needed,
                }
            }
            at += 1;
        }
    }

    /// A promised request at the head of the queue takes what it lacks from best effort, if that is enough.
    fn keep_the_first_promise(&mut self, problem: &StepProblem) {
        let Some(head) = problem.waiting.first() else { return };
        if head.key.tier != Tier::Promised || is_helped(head) {
            return;
        }
        let running = &problem.running;
        let (mut staying, mut slots, mut blocks) = (self.staying, self.slots, self.blocks);
        while slots == 0 || blocks < head.blocks {
            if staying == 0 || running[staying - 1].key.tier == Tier::Promised {
                return;
            }
            staying -= 1;
            slots += 1;
            blocks += running[staying].frees;
        }
        while self.staying > staying {
            self.preempt_last(running, Cause::Promise);
        }
    }

    fn preempt_last(&mut self, running: &[Running], cause: Cause) {
        self.staying -= 1;
        self.slots += 1;
        self.blocks += running[self.staying].frees;
        self.preempts.push((self.staying, cause));
    }
}

fn is_helped(waiting: &Waiting) -> bool {
    waiting.helpers.iter().any(|helper| matches!(helper, Helper::Running(_)))
}
