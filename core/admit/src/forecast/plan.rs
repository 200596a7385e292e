//! The next step of a simulated engine.
//!
//! The same rules as [`sched::StepProblem::solve`] under [`sched::Discipline::Continuous`], for sequences
//! that grow by no blocks and have no helpers, written so that most steps cost a few additions. A test
//! holds the two against each other.

use sched::{Limits, Order, PlanKey, StepCost, StepShape};
use units::Span;

use super::seq::Seq;

/// See `JOIN_TOKENS_MIN`, `CHUNK_MIN` and `TURN` of the planner.
const JOIN_TOKENS_MIN: u32 = 16;
const CHUNK_MIN: u32 = 16;
pub(super) const TURN: u64 = 8;
/// Corrections of a guessed length before it is searched for.
const CORRECTIONS_MAX: u32 = 4;

/// What there is to plan with.
pub(super) struct Room<'a> {
    pub(super) limits: &'a Limits,
    pub(super) cost: &'a StepCost,
    /// The number that the step will have.
    pub(super) step: u64,
    pub(super) slots: u32,
    pub(super) blocks: u32,
}

/// A planned step. Lists keep their memory from step to step.
#[derive(Clone, Debug, Default)]
pub(super) struct Step {
    pub(super) shape: StepShape,
    /// Every sequence that can decode does.
    pub(super) all_decode: bool,
    /// Otherwise: the indices of those that do.
    pub(super) decodes: Vec<usize>,
    /// Indices of running sequences, and how many prompt tokens each computes.
    pub(super) pieces: Vec<(usize, u32)>,
    /// Prompt tokens of those of the queue that join, from its head.
    pub(super) joins: Vec<u32>,
    /// Somebody in a prompt, or at the head of the queue with a slot and blocks, got less than it wants.
    pub(super) hungry: bool,
    target: Option<(Span, u32)>,
    /// So many decodes alone are known to be affordable, where attended cells cost nothing.
    affordable: u32,
    slots: u32,
    blocks: u32,
    barred: bool,
}

impl Room<'_> {
    /// How many heads of the queue the scheduler looks up: as many as have seats and blocks, until their
    /// prompts in full would take the whole budget, even where they then get less of it.
    pub(super) fn candidates(&self, waiting: &[Seq]) -> usize {
        let seats = waiting.len().min(self.slots as usize);
        let (mut blocks, mut prompts) = (self.blocks, self.limits.prefill_tokens);
        for (at, head) in waiting[..seats].iter().enumerate() {
            if head.blocks.0 > blocks || head.prefill_left >= prompts {
                return at + 1;
            }
            blocks -= head.blocks.0;
            prompts -= head.prefill_left;
        }
        seats
    }
}

impl Step {
    /// Plans the step. Preemptions have been made; `decodes` of those who run are not in their prompt.
    pub(super) fn plan(&mut self, room: &Room<'_>, running: &[Seq], waiting: &[Seq], decodes: u32) {
        self.clear(room);
        let prompts = running.len() > decodes as usize;
        self.target = target(room, decodes > 0);
        match (room.limits.rules.order, self.target) {
            (Order::DecodeFirst, _) | (Order::PrefillFirst, Some(_)) => {
                let held = first_prompt_row(running);
                self.shape = held;
                self.decode(room, running, 0, decodes);
                self.shape.prefill -= held.prefill;
                self.shape.cells -= held.cells;
                self.shape.prefill_cells -= held.prefill_cells;
                self.prompts(room, running, waiting, prompts);
            }
            (Order::PrefillFirst, None) => {
                let first = usize::from(running.first().is_some_and(Seq::is_decoding));
                self.all_decode = true;
                if first == 1 {
                    self.shape.decodes = 1;
                    self.shape.cells = u64::from(running[0].computed) + 1;
                }
                self.prompts(room, running, waiting, prompts);
                let behind = decodes - u32::from(first == 1);
                self.decode(room, running, first, behind);
            }
        }
    }

    /// Another engine's steps, or at other costs, are planned from now on.
    pub(super) fn forget(&mut self) {
        self.affordable = 0;
    }

    fn clear(&mut self, room: &Room<'_>) {
        self.shape = StepShape::default();
        self.all_decode = true;
        self.decodes.clear();
        self.pieces.clear();
        self.joins.clear();
        self.hungry = false;
        (self.slots, self.blocks) = (room.slots, room.blocks);
        self.barred = false;
    }

    /// Adds the decodes from index `from` on, of which there are `count`.
    fn decode(&mut self, room: &Room<'_>, running: &[Seq], from: usize, count: u32) {
        let mut shape = self.shape;
        shape.decodes += count;
        if room.cost.per_cell_us > 0.0 {
            let decoding = running[from..].iter().filter(|it| it.is_decoding());
            shape.cells += decoding.map(|it| u64::from(it.computed) + 1).sum::<u64>();
        }
        let rows = shape.decodes + shape.prefill;
        let known = rows <= self.affordable && shape.prefill == 0;
        if rows <= room.limits.batch_tokens && (known || rows <= 1 || room.affordable(shape)) {
            if shape.prefill == 0 && room.cost.per_cell_us == 0.0 {
                // More never costs less, so fewer are affordable too.
                self.affordable = self.affordable.max(rows);
            }
            self.shape = shape;
            return;
        }
        self.decode_some(room, running, from);
    }

    /// The same when the step cannot afford all of them.
    fn decode_some(&mut self, room: &Room<'_>, running: &[Seq], from: usize) {
        self.all_decode = false;
        self.decodes.extend((0..from).filter(|at| running[*at].is_decoding()));
        for (at, sequence) in running.iter().enumerate().skip(from) {
            let is_empty = self.shape.decodes + self.shape.prefill == 0;
            let mut shape = self.shape;
            shape.decodes += 1;
            shape.cells += u64::from(sequence.computed) + 1;
            let fits = sequence.is_decoding()
                && shape.decodes + shape.prefill <= room.limits.batch_tokens
                && (is_empty || room.affordable(shape));
            if fits {
                self.shape = shape;
                self.decodes.push(at);
            }
        }
    }

    fn prompts(
        &mut self,
        room: &Room<'_>,
        running: &[Seq],
        waiting: &[Seq],
        somebody_prefills: bool,
    ) {
        let hears = waiting.first().is_some_and(|head| self.seats(head));
        if !hears && !somebody_prefills {
            return;
        }
        for (at, sequence) in running.iter().enumerate() {
            self.join_before(room, waiting, Some(sequence.key));
            let rows = self.shape.decodes + self.shape.prefill;
            let sure = rows == 0 || at == 0 && self.joins.is_empty();
            let tokens = self.piece(room, sequence.prefill_left, sequence.computed, sure);
            self.shape = with_prefill(self.shape, tokens, sequence.computed);
            self.hungry |= tokens < sequence.prefill_left;
            if tokens > 0 {
                self.pieces.push((at, tokens));
            }
        }
        self.join_before(room, waiting, None);
    }

    fn join_before(&mut self, room: &Room<'_>, waiting: &[Seq], key: Option<PlanKey>) {
        while !self.barred
            && let Some(head) = waiting.get(self.joins.len())
            && key.is_none_or(|key| head.key < key)
        {
            self.barred = !self.hear(room, head);
        }
    }

    fn seats(&self, head: &Seq) -> bool {
        self.slots > 0 && head.blocks.0 <= self.blocks
    }

    fn hear(&mut self, room: &Room<'_>, head: &Seq) -> bool {
        if !self.seats(head) {
            return false;
        }
        let is_empty = self.shape.decodes + self.shape.prefill == 0;
        let tokens = self.piece(room, head.prefill_left, head.computed, is_empty);
        let least = self.join_tokens_min(room, head).min(head.prefill_left);
        self.hungry |= tokens < head.prefill_left;
        if tokens == 0 || tokens < least && !is_empty {
            return false;
        }
        self.shape = with_prefill(self.shape, tokens, head.computed);
        self.joins.push(tokens);
        self.slots -= 1;
        self.blocks -= head.blocks.0;
        true
    }

    fn join_tokens_min(&self, room: &Room<'_>, head: &Seq) -> u32 {
        let limits = room.limits;
        let rows = limits.batch_tokens.saturating_sub(limits.slots.saturating_sub(1));
        let most = JOIN_TOKENS_MIN.min(head.prefill_left).min(rows);
        let affords = |tokens: u32| {
            let alone = with_prefill(StepShape::default(), 2 * tokens, head.computed);
            2 * tokens <= limits.prefill_tokens && self.prompts_affordable(room, alone)
        };
        (2..=most).rev().find(|&tokens| affords(tokens)).unwrap_or(1)
    }

    fn piece(&self, room: &Room<'_>, left: u32, computed: u32, sure: bool) -> u32 {
        if left == 0 {
            return 0;
        }
        let shape = self.shape;
        let rows = room.limits.batch_tokens.saturating_sub(shape.decodes + shape.prefill);
        let budget = room.limits.prefill_tokens.saturating_sub(shape.prefill);
        let most = left.min(rows).min(budget);
        self.longest_affordable(room, most, computed).max(most.min(sure.into()))
    }

    fn prompts_affordable(&self, room: &Room<'_>, shape: StepShape) -> bool {
        let takes = room.cost.predict(shape);
        let kept = |(most, spare)| shape.prefill <= spare || takes <= most;
        takes <= room.limits.step && self.target.is_none_or(kept)
    }

    /// The most tokens, up to `most`, with which the step is still affordable: guessed, and put right.
    fn longest_affordable(&self, room: &Room<'_>, most: u32, computed: u32) -> u32 {
        let affordable =
            |tokens| self.prompts_affordable(room, with_prefill(self.shape, tokens, computed));
        if most == 0 || affordable(most) {
            return most;
        }
        let mut tokens = self.guess(room, computed).min(most - 1);
        for _ in 0..CORRECTIONS_MAX {
            match (affordable(tokens), affordable(tokens + 1)) {
                (true, false) => return tokens,
                (true, true) => tokens += 1,
                (false, _) if tokens == 0 => return 0,
                (false, _) => tokens -= 1,
            }
        }
        let (mut low, mut high) = (0, most);
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            if affordable(middle) { low = middle } else { high = middle - 1 }
        }
        low
    }

    /// About how many prompt tokens fill the step.
    fn guess(&self, room: &Room<'_>, computed: u32) -> u32 {
        let most = self.target.map_or(room.limits.step, |(most, _)| most.min(room.limits.step));
        let one = with_prefill(self.shape, 1, computed);
        let rest = most.0 as f64 - room.cost.expected_us(one);
        let StepCost { gain, per_prefill_token_us, per_cell_us, .. } = *room.cost;
        let each = gain * (per_prefill_token_us + per_cell_us * f64::from(computed));
        let tokens = 1.0 + (rest / each).max(-1.0);
        #[expect(clippy::cast_possible_truncation, reason = "float to int casts saturate")]
        #[expect(clippy::cast_sign_loss, reason = "it is not negative; NaN becomes zero")]
        let tokens = tokens as u32;
        tokens
    }
}

impl Room<'_> {
    pub(super) fn affordable(&self, shape: StepShape) -> bool {
        self.cost.predict(shape) <= self.limits.step
    }
}

fn target(room: &Room<'_>, decodes: bool) -> Option<(Span, u32)> {
    let most = room.limits.rules.itl?;
    let in_turn = match room.limits.rules.order {
        Order::DecodeFirst => room.step.is_multiple_of(TURN),
        Order::PrefillFirst => true,
    };
    decodes.then_some((most, if in_turn { CHUNK_MIN } else { 0 }))
}

fn first_prompt_row(running: &[Seq]) -> StepShape {
    let row = |it: &Seq| with_prefill(StepShape::default(), it.prefill_left.min(1), it.computed);
    running.first().map(row).unwrap_or_default()
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
