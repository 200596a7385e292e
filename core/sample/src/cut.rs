//! Which tokens may be drawn.
//!
//! Every filter keeps the likeliest so-and-so many tokens, ties in favour of the lower id. What it
//! keeps is therefore told by the last token that it keeps, a [`Cut`], and filters one after the other
//! keep what the strictest of them keeps. Finding the cut takes a scan of the row and a selection among
//! a few values, never a sort of the whole row.

use crate::{
    params::Sampling,
    row::{self, Peaks, Row},
};

/// More values than this are thinned out before more are looked at.
const LOOK: usize = 512;

/// Logits farther than this below the largest are looked at by `top_p` only when it needs them.
const WINDOW: f32 = 8.0;

/// The last token that is kept, in order of falling logits and rising ids.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Cut {
    /// Its logit: greater ones are kept, smaller ones are not.
    pub(crate) logit: f32,
    /// Its index: equal logits are kept up to here.
    pub(crate) last: usize,
}

impl Cut {
    /// Keeps all that have a chance.
    pub(crate) const NOTHING: Self = Self { logit: f32::MIN, last: usize::MAX };

    /// Whether the token at `index` is kept. NaN never is.
    pub(crate) fn keeps(self, index: usize, logit: f32) -> bool {
        logit > self.logit || (logit == self.logit && index <= self.last)
    }

    fn stricter(self, other: Self) -> Self {
        if self.keeps(other.last, other.logit) { other } else { self }
    }
}

/// The strictest cut that `sampling` asks for.
///
/// `top` is the largest logit, and finite; `scratch` is any buffer.
pub(crate) fn find(peaks: Peaks<'_>, top: f32, sampling: &Sampling, scratch: &mut Vec<f32>) -> Cut {
    let row = peaks.row;
    let mut cut = Cut::NOTHING;
    let k = sampling.top_k as usize;
    let few = k > 0 && k < row.len();
    if few {
        largest(peaks, k, scratch);
        let least = scratch.iter().copied().fold(top, f32::min);
        cut = Cut { logit: least, last: nth_equal(peaks, least, count_equal(scratch, least)) };
    }
    if sampling.top_p < 1.0 {
        let mass = if few { mass(scratch, top) } else { mass_of(row, top) };
        let target = mass * f64::from(sampling.top_p);
        if !few {
            above(peaks, top, target, scratch);
        }
        let (logit, ties) = nucleus(scratch, top, target);
        cut = cut.stricter(Cut { logit, last: nth_equal(peaks, logit, ties) });
    }
    if sampling.min_p > 0.0 {
        let logit = top + ln(sampling.min_p);
        cut = cut.stricter(Cut { logit, last: usize::MAX });
    }
    cut
}

fn mass(logits: &[f32], top: f32) -> f64 {
    row::sum(logits, |_, logit| row::exp(logit - top))
}

fn mass_of(row: Row<'_>, top: f32) -> f64 {
    row::sum_blocks(row.blocks(), |_, logit| row::exp(logit - top))
}

/// Computed in double precision and rounded, so that systems differ in it next to never.
pub(crate) fn ln(share: f32) -> f32 {
    #[expect(clippy::cast_possible_truncation, reason = "the rounding is the point")]
    let rounded = f64::from(share).ln() as f32;
    rounded
}

fn falling(a: &f32, b: &f32) -> std::cmp::Ordering {
    b.total_cmp(a)
}

/// Puts the `k` largest logits into `scratch`, in no order; fewer if the row has fewer real ones.
///
/// As many blocks as are wanted have a largest logit each, so the least of these is a floor for all.
fn largest(peaks: Peaks<'_>, k: usize, scratch: &mut Vec<f32>) {
    let full = k.saturating_add(k.max(LOOK));
    let mut floor = f32::NEG_INFINITY;
    scratch.clear();
    if k <= peaks.tops.len() {
        scratch.extend_from_slice(peaks.tops);
        let (_, least, _) = scratch.select_nth_unstable_by(k - 1, falling);
        floor = least.next_down();
        scratch.clear();
    }
    for (block, &top) in peaks.row.blocks().zip(peaks.tops) {
        if top <= floor {
            continue;
        }
        scratch.extend(block.iter().copied().filter(|&logit| logit > floor));
        if scratch.len() >= full {
            scratch.select_nth_unstable_by(k - 1, falling);
            scratch.truncate(k);
            floor = scratch[k - 1];
        }
    }
    if scratch.len() > k {
        scratch.select_nth_unstable_by(k - 1, falling);
        scratch.truncate(k);
    }
}

/// Puts the logits above a floor into `scratch`, the floor low enough for their mass to reach `target`
/// or to be all there is.
fn above(peaks: Peaks<'_>, top: f32, target: f64, scratch: &mut Vec<f32>) {
    let mut window = WINDOW;
    loop {
        scratch.clear();
        // A difference, because `top - window` may round to `top`.
        let near = |logit: f32| top - logit < window;
        for (_, block) in peaks.blocks(near) {
            scratch.extend(block.iter().copied().filter(|&logit| near(logit)));
        }
        if window > 100.0 || mass(scratch, top) >= target {
            return;
        }
        window *= 4.0;
    }
}

/// The least of the largest logits whose mass reaches `target` together, and how many of them equal it.
///
/// Halves the candidates at each turn, so it takes linear time.
fn nucleus(candidates: &mut [f32], top: f32, target: f64) -> (f32, usize) {
    let (mut low, mut high) = (0, candidates.len());
    let mut reached = 0.0;
    // Those before `low` are kept, those from `high` on are not.
    while high - low > 1 {
        let half = (high - low) / 2;
        candidates[low..high].select_nth_unstable_by(half, falling);
        let upper = mass(&candidates[low..low + half], top);
        if reached + upper >= target {
            high = low + half;
        } else {
            reached += upper;
            low += half;
        }
    }
    let kept = &candidates[..high];
    let least = kept.last().copied().unwrap_or(top);
    (least, count_equal(kept, least))
}

fn count_equal(values: &[f32], wanted: f32) -> usize {
    values.iter().filter(|&&value| value == wanted).count()
}

/// The index of the `n`th logit that equals `logit`, counted from 1.
fn nth_equal(peaks: Peaks<'_>, logit: f32, n: usize) -> usize {
    let mut left = n.max(1);
    for (start, block) in peaks.blocks(|top| top >= logit) {
        let here = count_equal(block, logit);
        if here >= left {
            let mut equals = (start..).zip(block).filter(|&(_, &other)| other == logit);
            return equals.nth(left - 1).map_or(usize::MAX, |(index, _)| index);
        }
        left -= here;
    }
    usize::MAX
}
