//! The step planner: a pure function from a plain problem to a plain solution.
//!
//! The engine plans its steps with it, and whoever wants to know what the engine will do (simulator,
//! admission) calls the same function. It knows no ids, no tokens and no time, only sizes. Its rules are
//! in the [`Limits`] that come with a problem.

mod relief;
mod step;
mod target;
#[cfg(test)]
mod tests;

use units::BlockCount;

use crate::{Limits, PlanKey, StepCost, StepShape};
use relief::Relief;
use step::Step;

/// Names the planning rules. Changes whenever the same problem may get another solution.
pub const PLANNER_VERSION: &str = "ladder-5";

/// What the planner has to choose from, each list in planning order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepProblem {
    /// The number that the step will have.
    pub step: u64,
    /// Sequences with a slot.
    pub running: Vec<Running>,
    /// Requests without, who may join. Those further behind may be left out.
    pub waiting: Vec<Waiting>,
    /// Slots that may be taken; see [`Discipline::seats`](crate::Discipline::seats).
    pub free_slots: u32,
    /// Blocks that nobody holds, those that would have to be evicted included.
    pub free_blocks: BlockCount,
}

/// A sequence with a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Running {
    /// Its place in the planning order.
    pub key: PlanKey,
    /// Prompt tokens to compute; 0 while decoding.
    pub prefill_left: u32,
    /// Tokens computed.
    pub computed: u32,
    /// Blocks that it has to get before it can decode once more.
    pub grows: BlockCount,
    /// Blocks that come free when it is preempted after all who are behind it.
    pub frees: BlockCount,
}

/// A request without a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Its place in the planning order.
    pub key: PlanKey,
    /// Prompt tokens to compute. At least 1.
    pub prefill: u32,
    /// Prompt tokens found in the cache.
    pub cached: u32,
    /// Free blocks that it takes with the slot.
    pub blocks: BlockCount,
    /// Who is ahead of it and computes a prompt of which it could use more than the cache holds now.
    pub helpers: Vec<Helper>,
}

/// Somebody whose prompt a request can use once it is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Helper {
    /// An index into `running`, of one that computes its prompt.
    Running(usize),
    /// An index into `waiting`, of one further ahead.
    Waiting(usize),
}

/// Why a sequence is preempted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Somebody ahead of it needs a block and there is none.
    Pressure,
    /// A promised request needs its slot or its blocks.
    Promise,
    /// Admission ordered it.
    Order,
}

/// What one step does.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepSolution {
    /// Indices into `running` that go back to the queue, in this order, and why. The rest of the solution
    /// supposes that each frees what the problem said.
    pub preempts: Vec<(usize, Cause)>,
    /// Indices into `running` that sample one more token, and get the blocks that they grow by.
    pub decodes: Vec<usize>,
    /// Indices into `running` and how many prompt tokens each computes.
    pub prefills: Vec<(usize, u32)>,
    /// Indices into `waiting` that join, and how many prompt tokens each computes.
    pub joins: Vec<(usize, u32)>,
    /// The whole step.
    pub shape: StepShape,
}

impl StepSolution {
    /// Rows of the step.
    #[must_use]
    pub fn rows(&self) -> u32 {
        self.shape.decodes + self.shape.prefill
    }
}

impl StepProblem {
    /// Plans one step: running decodes and prompts, in the order that the rules say, each in planning
    /// order. Requests are planned among the prompts that run: the head of the queue joins while it fits.
    /// Nobody overtakes it, so that a large request is not starved by small ones; except that a request
    /// with a [`Helper`] at work lets others pass, who leave it the slot and the blocks that it needs.
    ///
    /// With a target for the gaps between tokens, a step that holds an answer is predicted to keep it, or
    /// has no more prompt tokens than the smallest chunk (16), which every 8th step may have, and under
    /// prefill-first every step; and the first who runs gets its row in any case. Answers alone may
    /// exceed it.
    ///
    /// A step with anything to do gets at least one row, whatever it is predicted to cost, and the first
    /// who runs gets one in any case.
    #[must_use]
    pub fn solve(&self, limits: &Limits, cost: &StepCost) -> StepSolution {
        let relief = Relief::find(self, limits.rules.discipline);
        Step::new(self, limits, cost, relief).plan(limits.rules.order)
    }
}
