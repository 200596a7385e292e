//! The step planner: a pure function from a plain problem to a plain solution.
//!
//! The engine plans its steps with it, and whoever wants to know what the engine will do (simulator,
//! admission) calls the same function. It knows no ids, no tokens and no time, only sizes.

use units::{BlockCount, Span};

use crate::{PlanKey, StepCost, StepShape};

/// Names the planning rules. Changes whenever the same problem may get another solution.
pub const PLANNER_VERSION: &str = "continuous-2";

/// A sequence joins with at least this many prompt tokens, or all it has: a slot that gets less
/// would be held for nothing.
const JOIN_TOKENS_MIN: u32 = 16;

/// Bounds of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Sequences that can run at once. At least 1.
    pub slots: u32,
    /// Tokens that prompt and answer of one request have together at most.
    pub context_tokens: u32,
    /// Rows of one backend batch. At least `slots`.
    pub batch_tokens: u32,
    /// Prompt tokens in one step. At least 1, at most `batch_tokens`.
    pub prefill_tokens: u32,
    /// No step with more than one row is planned whose predicted time is above this.
    pub step: Span,
    /// Requests that may wait.
    pub waiting: u32,
    /// Requests in the system that no promiser leased.
    pub unleased: u32,
    /// KV blocks.
    pub kv_blocks: BlockCount,
}

/// What the planner has to choose from, each list in planning order.
#[derive(Clone, Debug, Default)]
pub struct StepProblem {
    /// Sequences with a slot.
    pub running: Vec<Running>,
    /// Requests without.
    pub waiting: Vec<Waiting>,
    /// Slots that nobody holds.
    pub free_slots: u32,
    /// Blocks that nobody holds.
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
}

/// A request without a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Its place in the planning order.
    pub key: PlanKey,
    /// Prompt tokens to compute. At least 1.
    pub prefill: u32,
    /// Blocks it takes with the slot.
    pub blocks: BlockCount,
}

/// What one step does.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepSolution {
    /// Indices into `running` that sample one more token.
    pub decodes: Vec<usize>,
    /// Indices into `running` and how many prompt tokens each computes.
    pub prefills: Vec<(usize, u32)>,
    /// Prompt tokens of the first waiting requests, which join.
    pub joins: Vec<u32>,
    /// The whole step.
    pub shape: StepShape,
}

impl StepProblem {
    /// Plans one step: running decodes first, then prompts in planning order, those of the queue among
    /// those that run: the head of the queue joins while it fits. Nobody overtakes it, so that a large
    /// request is not starved by small ones.
    ///
    /// A step with anything to do gets at least one row, whatever it is predicted to cost.
    #[must_use]
    pub fn solve(&self, limits: &Limits, cost: &StepCost) -> StepSolution {
        let blocks = self.free_blocks;
        let mut step = Builder { limits, cost, blocks, solution: StepSolution::default() };
        for (at, sequence) in self.running.iter().enumerate() {
            if sequence.prefill_left == 0 && step.decode(sequence.computed) {
                step.solution.decodes.push(at);
            }
        }
        let slots = self.waiting.len().min(self.free_slots as usize);
        let mut queue = &self.waiting[..slots];
        for (at, sequence) in self.running.iter().enumerate() {
            step.join_before(&mut queue, Some(sequence.key));
            let tokens = step.prefill(sequence.prefill_left, sequence.computed, 1);
            if tokens > 0 {
                step.solution.prefills.push((at, tokens));
            }
        }
        step.join_before(&mut queue, None);
        step.solution
    }
}

struct Builder<'a> {
    limits: &'a Limits,
    cost: &'a StepCost,
    /// Blocks that nobody holds yet.
    blocks: BlockCount,
    solution: StepSolution,
}

impl Builder<'_> {
    fn is_empty(&self) -> bool {
        self.solution.shape == StepShape::default()
    }

    fn affordable(&self, shape: StepShape) -> bool {
        self.cost.predict(shape) <= self.limits.step
    }

    /// Adds a decode if the step can afford it.
    fn decode(&mut self, computed: u32) -> bool {
        let mut shape = self.solution.shape;
        shape.decodes += 1;
        shape.cells += u64::from(computed) + 1;
        let fits = shape.decodes <= self.limits.batch_tokens
            && (self.is_empty() || self.affordable(shape));
        if fits {
            self.solution.shape = shape;
        }
        fits
    }

    /// Seats those of the queue that are planned before `key`. When the head does not fit, nobody behind
    /// it may join either.
    fn join_before(&mut self, queue: &mut &[Waiting], key: Option<PlanKey>) {
        while let Some((head, rest)) = queue.split_first()
            && key.is_none_or(|key| head.key < key)
        {
            *queue = if self.join(head) { rest } else { &[] };
        }
    }

    /// Seats a request if there are blocks and time for it.
    fn join(&mut self, waiting: &Waiting) -> bool {
        if waiting.blocks > self.blocks {
            return false;
        }
        let tokens = self.prefill(waiting.prefill, 0, JOIN_TOKENS_MIN);
        if tokens > 0 {
            self.blocks -= waiting.blocks;
            self.solution.joins.push(tokens);
        }
        tokens > 0
    }

    /// Adds as much of a prompt as the step can afford, and says how much: nothing if it is less than
    /// `least` and less than the whole.
    fn prefill(&mut self, left: u32, computed: u32, least: u32) -> u32 {
        let shape = self.solution.shape;
        let rows = self.limits.batch_tokens.saturating_sub(shape.decodes + shape.prefill);
        let budget = self.limits.prefill_tokens.saturating_sub(shape.prefill);
        let most = left.min(rows).min(budget);
        let mut tokens = self.longest_affordable(most, computed);
        if tokens == 0 && self.is_empty() {
            tokens = most.min(1);
        }
        if tokens < least.min(left) && !self.is_empty() {
            return 0;
        }
        self.solution.shape = with_prefill(shape, tokens, computed);
        tokens
    }

    /// The most tokens, up to `most`, with which the step is still affordable. More tokens never cost
    /// less, so the boundary can be searched.
    fn longest_affordable(&self, most: u32, computed: u32) -> u32 {
        let affordable =
            |tokens| self.affordable(with_prefill(self.solution.shape, tokens, computed));
        let (mut low, mut high) = (0, most);
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            if affordable(middle) { low = middle } else { high = middle - 1 }
        }
        low
    }
}

/// `shape` with a piece of a prompt: row `i` of it attends to `computed + i + 1` cells.
fn with_prefill(shape: StepShape, tokens: u32, computed: u32) -> StepShape {
    let (rows, before) = (u64::from(tokens), u64::from(computed));
    StepShape {
        decodes: shape.decodes,
        prefill: shape.prefill + tokens,
        cells: shape.cells + rows * before + rows * (rows + 1) / 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tier;
    use proptest::prelude::*;
    use units::Micros;

    const LIMITS: Limits = Limits {
        slots: 4,
        context_tokens: 1_000,
        batch_tokens: 512,
        prefill_tokens: 512,
        step: Span::from_millis(500),
        waiting: 8,
        unleased: 8,
        kv_blocks: BlockCount(100),
    };

    fn key(arrival: u64) -> PlanKey {
        PlanKey { tier: Tier::BestEffort, deadline: Micros(0), arrival }
    }

    fn waiting(prefill: u32, blocks: u32) -> Waiting {
        Waiting { key: key(9), prefill, blocks: BlockCount(blocks) }
    }

    fn running(prefill_left: u32, computed: u32) -> Running {
        Running { key: key(0), prefill_left, computed }
    }

    #[test]
    fn no_step_is_predicted_over_the_limit() {
        let problem = StepProblem {
            running: vec![running(0, 9); 3],
            waiting: vec![waiting(900, 60)],
            free_slots: 1,
            free_blocks: BlockCount(100),
        };
        let solution = problem.solve(&LIMITS, &StepCost::GUESS);
        // 4 + 3 * 4 ms leave 484 ms for 2.2 ms tokens.
        assert_eq!((solution.decodes.len(), &solution.joins), (3, &vec![220]));
    }

    #[test]
    fn nobody_overtakes_the_head_of_the_queue() {
        let problem = StepProblem {
            waiting: vec![waiting(20, 60), waiting(20, 2)],
            free_slots: 4,
            free_blocks: BlockCount(50),
            ..StepProblem::default()
        };
        assert_eq!(problem.solve(&LIMITS, &StepCost::GUESS).joins, Vec::<u32>::new());
    }

    #[test]
    fn a_request_does_not_join_for_a_few_tokens() {
        let limits = Limits { prefill_tokens: 40, ..LIMITS };
        let problem = StepProblem {
            waiting: vec![waiting(30, 2), waiting(30, 2)],
            free_slots: 4,
            free_blocks: BlockCount(50),
            ..StepProblem::default()
        };
        assert_eq!(problem.solve(&limits, &StepCost::GUESS).joins, [30]);
    }

    #[test]
    fn the_queue_is_planned_among_the_prompts_that_run() {
        let limits = Limits { prefill_tokens: 100, ..LIMITS };
        let ahead = Waiting { key: PlanKey { tier: Tier::Promised, ..key(9) }, ..waiting(60, 9) };
        let problem = StepProblem {
            running: vec![running(700, 0)],
            waiting: vec![ahead, waiting(60, 9)],
            free_slots: 4,
            free_blocks: BlockCount(50),
        };
        let solution = problem.solve(&limits, &StepCost::GUESS);
        assert_eq!((solution.joins, solution.prefills), (vec![60], vec![(0, 40)]));
    }

    #[test]
    fn a_machine_too_slow_for_its_limit_still_moves() {
        let cost = StepCost { gain: 60.0, base_us: 1e6, ..StepCost::GUESS };
        let decode = StepProblem { running: vec![running(0, 9); 3], ..StepProblem::default() };
        assert_eq!(decode.solve(&LIMITS, &cost).decodes, [0]);
        let join = StepProblem {
            waiting: vec![waiting(900, 60)],
            free_slots: 1,
            free_blocks: BlockCount(100),
            ..StepProblem::default()
        };
        assert_eq!(join.solve(&LIMITS, &cost).joins, [1]);
    }

    fn problems() -> impl Strategy<Value = StepProblem> {
        let running = (prop_oneof![Just(0u32), 0u32..700], 0u32..700)
            .prop_map(|(left, computed)| running(left, computed));
        let waiting = (1u32..700, 1u32..60).prop_map(|(prefill, blocks)| waiting(prefill, blocks));
        let many = (prop::collection::vec(running, 0..5), prop::collection::vec(waiting, 0..5));
        (many, 0u32..5, 0u32..100).prop_map(|((running, waiting), free_slots, blocks)| {
            StepProblem { running, waiting, free_slots, free_blocks: BlockCount(blocks) }
        })
    }

    proptest! {
        /// SC-1, SC-2, SC-3 and SC-4 for every problem, cost and limit.
        #[test]
        fn every_solution_keeps_the_limits(
            problem in problems(),
            prefill_tokens in 1u32..512,
            gain in 0.01f64..100.0,
            per_cell_us in 0.0f64..2.0,
        ) {
            let limits = Limits { prefill_tokens, ..LIMITS };
            let cost = StepCost { gain, per_cell_us, ..StepCost::GUESS };
            let solution = problem.solve(&limits, &cost);
            let shape = solution.shape;
            let rows = shape.decodes + shape.prefill;
            prop_assert!(cost.predict(shape) <= limits.step || rows == 1, "SC-1");
            prop_assert!(shape.prefill <= prefill_tokens && rows <= limits.batch_tokens, "SC-2");
            for &at in &solution.decodes {
                prop_assert_eq!(problem.running[at].prefill_left, 0, "SC-3");
            }
            let blocks: BlockCount =
                problem.waiting.iter().take(solution.joins.len()).map(|it| it.blocks).sum();
            prop_assert!(blocks <= problem.free_blocks, "SC-4");
            prop_assert!(solution.joins.len() <= problem.free_slots as usize, "SC-4");
            let can_join = problem.free_slots > 0
                && problem.waiting.first().is_some_and(|it| it.blocks <= problem.free_blocks);
            prop_assert_eq!(rows > 0, !problem.running.is_empty() || can_join, "something moves");
        }
    }
}
