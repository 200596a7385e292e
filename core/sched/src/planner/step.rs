//! A step, while it is filled.

use units::BlockCount;

use super::{Helper, Relief, Running, StepProblem, StepSolution, Waiting, target::Target};
use crate::{Limits, Order, PlanKey, StepCost, StepShape};

/// A sequence joins with at least this many prompt tokens, or all it has, or half of what it would get
/// in a step of its own: a slot that gets less would be held for nothing.
const JOIN_TOKENS_MIN: u32 = 16;

pub(super) struct Step<'a> {
    limits: &'a Limits,
    cost: &'a StepCost,
    /// Who runs and stays.
    running: &'a [Running],
    stuck: Vec<usize>,
    /// What prompts have to keep beside answers that run.
    target: Option<Target>,
    waiting: &'a [Waiting],
    /// How many of `waiting` have had their turn: all, once one that cannot join bars the way.
    heard: usize,
    /// Slots that nobody has a claim to yet.
    slots: u32,
    /// Blocks that nobody has a claim to yet.
    blocks: BlockCount,
    solution: StepSolution,
}

impl<'a> Step<'a> {
    pub(super) fn new(
        problem: &'a StepProblem,
        limits: &'a Limits,
        cost: &'a StepCost,
        relief: Relief,
    ) -> Self {
        let Relief { preempts, staying, stuck, slots, blocks } = relief;
        let running = &problem.running[..staying];
        Self {
            limits,
            cost,
            running,
            target: Target::find(problem, limits, running, &stuck),
            stuck,
            waiting: &problem.waiting,
            heard: 0,
            slots,
            blocks,
            solution: StepSolution {
                preempts,
                decodes: Vec::with_capacity(staying),
                ..StepSolution::default()
            },
        }
    }

    pub(super) fn plan(mut self, order: Order) -> StepSolution {
        match (order, self.target) {
            // A target leaves no answer out of a step, so that answers have their share before prompts.
            (Order::DecodeFirst, _) | (Order::PrefillFirst, Some(_)) => {
                let held = self.first_prompt_row();
                self.solution.shape = held;
                self.decodes(0);
                self.solution.shape.prefill -= held.prefill;
                self.solution.shape.cells -= held.cells;
                self.solution.shape.prefill_cells -= held.prefill_cells;
                self.prompts();
            }
            (Order::PrefillFirst, None) => {
                let first = usize::from(self.try_decode(0));
                self.prompts();
                self.decodes(first);
            }
        }
        self.solution
    }

    /// The row that the first who runs is sure of, if it is in its prompt.
    fn first_prompt_row(&self) -> StepShape {
        let row = |first: &Running| {
            with_prefill(StepShape::default(), first.prefill_left.min(1), first.computed)
        };
        self.running.first().map(row).unwrap_or_default()
    }

    fn is_empty(&self) -> bool {
        self.solution.rows() == 0
    }

    fn affordable(&self, shape: StepShape) -> bool {
        self.cost.predict(shape) <= self.limits.step
    }

    /// Whether a step may hold the prompt tokens that `shape` has.
    fn prompts_affordable(&self, shape: StepShape) -> bool {
        self.affordable(shape) && self.target.is_none_or(|it| it.allows(shape, self.cost))
    }

    fn decodes(&mut self, from: usize) {
        for at in from..self.running.len() {
            self.try_decode(at);
        }
    }

    /// Adds a decode if it is one and the step can afford it.
    fn try_decode(&mut self, at: usize) -> bool {
        let Some(sequence) = self.running.get(at) else { return false };
        let mut shape = self.solution.shape;
        shape.decodes += 1;
        shape.cells += u64::from(sequence.computed) + 1;
        let fits = sequence.prefill_left == 0
            && !self.stuck.contains(&at)
            && shape.decodes + shape.prefill <= self.limits.batch_tokens
            && (self.is_empty() || self.affordable(shape));
        if fits {
            self.solution.shape = shape;
            self.solution.decodes.push(at);
        }
        fits
    }

    /// Adds prompts of those who run and of those who join, in planning order.
    fn prompts(&mut self) {
        for (at, sequence) in self.running.iter().enumerate() {
            self.join_before(Some(sequence.key));
            // The row that the first was sure of when answers were planned: no target takes it.
            let sure = self.is_empty() || at == 0 && self.solution.joins.is_empty();
            let tokens = self.prefill(sequence.prefill_left, sequence.computed, sure);
            if tokens > 0 {
                self.solution.prefills.push((at, tokens));
            }
        }
        self.join_before(None);
    }

    /// Seats those of the queue that are planned before `key`. When the head does not fit, nobody behind
    /// it may join either.
    fn join_before(&mut self, key: Option<PlanKey>) {
        while let Some(head) = self.waiting.get(self.heard)
            && key.is_none_or(|key| head.key < key)
        {
            self.heard = if self.hear(head) { self.heard + 1 } else { self.waiting.len() };
        }
    }

    /// Seats a request, or sets aside what it needs when somebody is about to help it. Says whether those
    /// behind it may have their turn.
    fn hear(&mut self, head: &Waiting) -> bool {
        if self.slots == 0 || head.blocks > self.blocks {
            return false;
        }
        if !self.is_helped(head) {
            let tokens = self.joining(head);
            if tokens == 0 {
                return false;
            }
            self.solution.shape = with_prefill(self.solution.shape, tokens, head.cached);
            self.solution.joins.push((self.heard, tokens));
        }
        self.slots -= 1;
        self.blocks -= head.blocks;
        true
    }

    /// The fewest prompt tokens that a request joins with. Where steps are small, it asks for no more than
    /// can be had beside others: or it would wait until nobody is left, and nothing would run together.
    fn join_tokens_min(&self, head: &Waiting) -> u32 {
        let limits = self.limits;
        // What is left of the batch when everybody else decodes.
        let rows = limits.batch_tokens.saturating_sub(limits.slots.saturating_sub(1));
        let most = JOIN_TOKENS_MIN.min(head.prefill).min(rows);
        let affords = |tokens: u32| {
            let alone = with_prefill(StepShape::default(), 2 * tokens, head.cached);
            2 * tokens <= limits.prefill_tokens && self.prompts_affordable(alone)
        };
        (2..=most).rev().find(|&tokens| affords(tokens)).unwrap_or(1)
    }

    fn is_helped(&self, waiting: &Waiting) -> bool {
        let works = |helper: &Helper| match *helper {
            Helper::Running(at) => at < self.running.len(),
            Helper::Waiting(at) => self.solution.joins.iter().any(|&(joins, _)| joins == at),
        };
        waiting.helpers.iter().any(works)
    }

    /// Prompt tokens that a request joins with: nothing if it would be too few.
    fn joining(&self, head: &Waiting) -> u32 {
        let tokens = self.piece(head.prefill, head.cached, self.is_empty());
        let least = self.join_tokens_min(head).min(head.prefill);
        if tokens < least && !self.is_empty() { 0 } else { tokens }
    }

    /// Adds as much of a prompt as the step can afford, a row in any case if that is `sure`. Says how much.
    fn prefill(&mut self, left: u32, computed: u32, sure: bool) -> u32 {
        let tokens = self.piece(left, computed, sure);
        self.solution.shape = with_prefill(self.solution.shape, tokens, computed);
        tokens
    }

    /// As much of a prompt as the step can afford, a row in any case if that is `sure`.
    fn piece(&self, left: u32, computed: u32, sure: bool) -> u32 {
        let rows = self.limits.batch_tokens.saturating_sub(self.solution.rows());
        let budget = self.limits.prefill_tokens.saturating_sub(self.solution.shape.prefill);
        let most = left.min(rows).min(budget);
        self.longest_affordable(most, computed).max(most.min(sure.into()))
    }

    /// The most tokens, up to `most`, with which the step is still affordable. More tokens never cost
    /// less, so the boundary can be searched.
    fn longest_affordable(&self, most: u32, computed: u32) -> u32 {
        let affordable =
            |tokens| self.prompts_affordable(with_prefill(self.solution.shape, tokens, computed));
        if affordable(most) {
            return most;
        }
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
    let cells = rows * before + rows * (rows + 1) / 2;
    StepShape {
        decodes: shape.decodes,
        prefill: shape.prefill + tokens,
        cells: shape.cells + cells,
        prefill_cells: shape.prefill_cells + cells,
    }
}
