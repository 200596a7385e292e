//! Which steps are measured.

use units::Span;

use super::{Composition, Reach};

/// What a sequence holds that has hardly begun.
const SHALLOW: u32 = 16;
/// Deeper sequences tell nothing new: attended cells cost the same each.
const DEEPEST: u32 = 512;
/// Longer prompts than a step of this can hold are not measured: none is planned.
const STEP: Span = Span::from_millis(600);
/// The part of the time that may be spent on computing what deep sequences hold.
const DEEP_SHARE: f64 = 0.15;

/// Rows of prompts.
const PROMPTS: [u32; 10] = [1, 4, 16, 32, 64, 128, 192, 256, 384, 512];
/// Widths, beside powers of two.
const WIDTHS: [u32; 6] = [3, 6, 12, 24, 48, 96];

/// How large the steps of a grid are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// The longest prompt of a step.
    longest: u32,
    /// Tokens that a deep sequence holds.
    deep: u32,
}

impl Grid {
    /// A grid for an engine that computes a prompt token in `token`, to be measured within `patience`.
    #[must_use]
    pub fn new(reach: &Reach, token: Span, patience: Span) -> Self {
        let token = token.as_secs_f64().max(1e-9);
        let longest = whole(STEP.as_secs_f64() / token).max(SHALLOW).min(reach.batch_tokens.max(1));
        // Without kept prefixes everybody computes its own.
        let computing = if reach.keeps { 1 } else { reach.slots };
        let affordable = whole(patience.as_secs_f64() * DEEP_SHARE / token) / computing;
        let room = reach.context_tokens / 2;
        Self { longest, deep: affordable.min(DEEPEST).min(room).max(1) }
    }

    /// The fewest steps that determine a model: prompts, one answer and several.
    #[must_use]
    pub fn least(reach: &Reach) -> Vec<Composition> {
        let prompt = |prefill| Composition { prefill, ..Composition::default() };
        let answers = |decodes| Composition { depth: 1, decodes, ..Composition::default() };
        let several = 4.min(reach.slots);
        let all = vec![prompt(4), prompt(16), answers(1), answers(several)];
        all.into_iter().filter(|it| reach.holds(it)).collect()
    }

    /// The steps that tell most, for a few seconds.
    #[must_use]
    pub fn short(&self, reach: &Reach) -> Vec<Composition> {
        let widths = || powers().filter(|width| [1, 2, 4, 8, 16, 64, 256].contains(width));
        let mut all = self.prompts(&[1, 4, 16, 64, 128, 256]);
        all.extend(self.decodes(widths()));
        all.extend(self.both(&[1, 7], &[32, 128]));
        self.kept(reach, all)
    }

    /// All steps.
    #[must_use]
    pub fn long(&self, reach: &Reach) -> Vec<Composition> {
        let mut all = self.prompts(&PROMPTS);
        all.extend(self.decodes(powers().chain(WIDTHS)));
        all.extend(self.both(&[1, 4, 8, 12, 32, 64], &[8, 32, 64, 128]));
        self.kept(reach, all)
    }

    fn prompts(&self, rows: &[u32]) -> Vec<Composition> {
        let prompt =
            |&prefill, computed| Composition { prefill, computed, ..Composition::default() };
        rows.iter().flat_map(|rows| [prompt(rows, 0), prompt(rows, self.deep)]).collect()
    }

    fn decodes(&self, widths: impl Iterator<Item = u32>) -> Vec<Composition> {
        let at = |decodes, depth| Composition { decodes, depth, ..Composition::default() };
        widths.flat_map(|width| [at(width, SHALLOW), at(width, self.deep)]).collect()
    }

    fn both(&self, widths: &[u32], rows: &[u32]) -> Vec<Composition> {
        let deep = self.deep;
        let pairs = widths.iter().flat_map(|width| rows.iter().map(move |rows| (*width, *rows)));
        let at =
            |(decodes, prefill), depth, computed| Composition { depth, decodes, prefill, computed };
        pairs.flat_map(|pair| [at(pair, SHALLOW, 0), at(pair, deep, deep)]).collect()
    }

    /// Steps from all over, of which few are in the above: to check a model by.
    #[must_use]
    pub fn others(&self, reach: &Reach) -> Vec<Composition> {
        const COUNT: u32 = 48;
        let mut drawn = 0_u32;
        let mut draw = |most: u32| {
            // The golden ratio's multiples fall evenly.
            drawn = drawn.wrapping_add(0x9e37_79b9);
            1 + u32::try_from((u64::from(drawn) * u64::from(most.max(1))) >> 32).unwrap_or(0)
        };
        let all = (0..COUNT).map(|at| {
            let decodes = if at % 3 == 1 { 0 } else { draw(reach.slots) };
            let prefill = if at % 3 == 0 { 0 } else { draw(self.longest) };
            let depth = if decodes > 0 { draw(self.deep) } else { 0 };
            let computed = if prefill > 0 && at % 2 == 0 { draw(self.deep) } else { 0 };
            Composition { depth, decodes, prefill, computed }
        });
        self.kept(reach, all.collect())
    }

    /// What can be run. Where changing the depth of slots costs little, so that neighbours in time are of all
    /// kinds, and a machine that gets slower meanwhile makes none of them look dear. Elsewhere in an order
    /// that changes it seldom.
    fn kept(&self, reach: &Reach, mut all: Vec<Composition>) -> Vec<Composition> {
        all.retain(|it| it.prefill <= self.longest && reach.holds(it));
        // It would have to be computed anew for every step.
        all.retain(|it| reach.keeps || it.computed == 0);
        all.sort_by_key(|it| (it.depth, it.decodes, it.computed, it.prefill));
        all.dedup();
        if reach.keeps { mixed(&all) } else { all }
    }
}

/// Every element once, neighbours from far apart.
fn mixed(all: &[Composition]) -> Vec<Composition> {
    let count = all.len();
    let shares = |stride: usize| {
        (2..=stride).any(|it| count.is_multiple_of(it) && stride.is_multiple_of(it))
    };
    let stride = (1 + count * 5 / 13..).find(|it| !shares(*it)).unwrap_or(1);
    (0..count).map(|at| all[at * stride % count]).collect()
}

fn powers() -> impl Iterator<Item = u32> {
    (0..=8).map(|power| 1 << power)
}

#[expect(clippy::cast_possible_truncation, reason = "float to int casts saturate")]
#[expect(clippy::cast_sign_loss, reason = "times are not negative")]
fn whole(value: f64) -> u32 {
    value as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const REACH: Reach =
        Reach { slots: 16, context_tokens: 2_048, batch_tokens: 512, keeps: true, vocabulary: 100 };

    #[test]
    fn a_small_model_is_measured_deep_and_a_large_one_as_deep_as_there_is_time() {
        let grid =
            |token_us, patience| Grid::new(&REACH, Span(token_us), Span::from_secs(patience));
        assert_eq!(grid(2_200, 30), Grid { longest: 272, deep: 512 });
        assert_eq!(grid(2_200, 4), Grid { longest: 272, deep: 272 });
        assert_eq!(grid(80_000, 4), Grid { longest: 16, deep: 7 });
        assert_eq!(grid(0, 4), Grid { longest: 512, deep: 512 });
    }

    #[test]
    fn without_kept_prefixes_depth_is_paid_by_each() {
        let reach = Reach { keeps: false, ..REACH };
        let grid = Grid::new(&reach, Span(2_200), Span::from_secs(30));
        assert_eq!(grid.deep, 127);
        assert!(grid.long(&reach).iter().all(|it| it.computed == 0));
    }

    #[test]
    fn every_step_can_be_run_and_is_there_once() {
        for reach in [REACH, Reach { slots: 1, context_tokens: 64, batch_tokens: 8, ..REACH }] {
            let grid = Grid::new(&reach, Span(2_200), Span::from_secs(30));
            for steps in [grid.short(&reach), grid.long(&reach), grid.others(&reach)] {
                assert!(steps.len() > 2, "{steps:?}");
                assert!(steps.iter().all(|it| reach.holds(it)));
                let mut once = steps.clone();
                once.sort();
                once.dedup();
                assert_eq!(once.len(), steps.len());
            }
        }
    }
}
