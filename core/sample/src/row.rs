//! Arithmetic over a row of logits, written so that the compiler can use vector instructions.

/// Logits are looked at in blocks of this many: long enough for vectors, short enough to rescan.
pub(crate) const BLOCK: usize = 128;

/// Values that one vector instruction may hold. Lanes are reduced in a fixed order.
const LANES: usize = 16;

/// A row of logits, of which some blocks are replaced by changed copies: a few entries of a large row are
/// changed at the price of the blocks that they lie in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row<'a> {
    logits: &'a [f32],
    /// Numbers of the replaced blocks, rising.
    replaced: &'a [usize],
    /// Their copies in the same order, each as long as its block.
    copies: &'a [f32],
}

impl<'a> From<&'a [f32]> for Row<'a> {
    fn from(logits: &'a [f32]) -> Self {
        Self { logits, replaced: &[], copies: &[] }
    }
}

impl<'a> Row<'a> {
    /// `logits` with the blocks numbered `replaced` taken from `copies`.
    pub(crate) fn patched(logits: &'a [f32], replaced: &'a [usize], copies: &'a [f32]) -> Self {
        Self { logits, replaced, copies }
    }

    pub(crate) fn len(self) -> usize {
        self.logits.len()
    }

    /// The blocks in order. All but the last have [`BLOCK`] values.
    pub(crate) fn blocks(self) -> impl Iterator<Item = &'a [f32]> {
        let mut replaced = self.replaced.iter().zip(self.copies.chunks(BLOCK)).peekable();
        self.logits.chunks(BLOCK).enumerate().map(move |(at, block)| {
            replaced.next_if(|(number, _)| **number == at).map_or(block, |(_, copy)| copy)
        })
    }

    /// All values, in order.
    #[cfg(test)]
    pub(crate) fn values(self) -> impl Iterator<Item = f32> {
        self.blocks().flatten().copied()
    }

    /// The index of the first largest value; 0 when nothing is larger than negative infinity.
    pub(crate) fn argmax(self) -> usize {
        let mut best = (f32::NEG_INFINITY, 0, &[][..]);
        for (at, block) in self.blocks().enumerate() {
            let largest = max(block);
            if largest > best.0 {
                best = (largest, at, block);
            }
        }
        let (largest, at, block) = best;
        let within = block.iter().position(|&value| value == largest);
        within.map_or(0, |index| at * BLOCK + index)
    }
}

/// A row with the largest value of each of its blocks: most blocks need no second look.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peaks<'a> {
    pub(crate) row: Row<'a>,
    pub(crate) tops: &'a [f32],
}

impl<'a> Peaks<'a> {
    /// Looks at all of `row`; `tops` is any buffer.
    pub(crate) fn find(row: Row<'a>, tops: &'a mut Vec<f32>) -> Self {
        tops.clear();
        tops.extend(row.blocks().map(max));
        Self { row, tops }
    }

    /// The largest value, which NaN never is; negative infinity if there is none.
    pub(crate) fn top(self) -> f32 {
        max(self.tops)
    }

    /// The blocks whose largest value is `wanted`, each with the index of its first value.
    pub(crate) fn blocks(
        self,
        wanted: impl Fn(f32) -> bool,
    ) -> impl Iterator<Item = (usize, &'a [f32])> {
        let blocks = self.row.blocks().zip(self.tops).enumerate();
        let wanted = blocks.filter(move |(_, (_, top))| wanted(**top));
        wanted.map(|(at, (block, _))| (at * BLOCK, block))
    }
}

/// The largest value, which NaN never is; negative infinity if there is none.
pub(crate) fn max(values: &[f32]) -> f32 {
    let larger = |a: f32, b: f32| if b > a { b } else { a };
    let mut lanes = [f32::NEG_INFINITY; LANES];
    let chunks = values.chunks_exact(LANES);
    let rest = chunks.remainder();
    for chunk in chunks {
        for (lane, &value) in lanes.iter_mut().zip(chunk) {
            *lane = larger(*lane, value);
        }
    }
    lanes.iter().chain(rest).copied().fold(f32::NEG_INFINITY, larger)
}

/// The sum of `weight` over all values.
pub(crate) fn sum(values: &[f32], weight: impl Fn(usize, f32) -> f32) -> f64 {
    sum_blocks(std::iter::once(values), weight)
}

/// The sum of `weight` over all values of blocks that follow each other, all but the last a multiple of
/// the lanes long.
pub(crate) fn sum_blocks<'a>(
    blocks: impl Iterator<Item = &'a [f32]>,
    weight: impl Fn(usize, f32) -> f32,
) -> f64 {
    let mut lanes = [0.0_f64; LANES];
    let mut start = 0;
    for block in blocks {
        for (at, chunk) in block.chunks(LANES).enumerate() {
            for (lane, (offset, &value)) in lanes.iter_mut().zip(chunk.iter().enumerate()) {
                *lane += f64::from(weight(start + at * LANES + offset, value));
            }
        }
        start += block.len();
    }
    lanes.iter().sum()
}

/// `e` to the power of `x`, for `x` up to 0: within three units in the last place, and 0 below -87
/// and for NaN.
///
/// Only additions, multiplications and comparisons, so that it is the same on every machine (a
/// system's own exponential is not), and a loop over it needs no calls.
pub(crate) fn exp(x: f32) -> f32 {
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    // Adding this moves the integer part of a small number into the lowest bits.
    const TO_INTEGER: f32 = 12_582_912.0;
    let shifted = x.max(-87.0) * std::f32::consts::LOG2_E + TO_INTEGER;
    let twos = shifted - TO_INTEGER;
    let rest = x - twos * LN2_HIGH - twos * LN2_LOW;
    // The Taylor series: `rest` is at most half of ln 2 away from 0.
    let mut power = 1.0 / 5040.0;
    for coefficient in [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
        power = power * rest + coefficient;
    }
    let exponent = shifted.to_bits().wrapping_sub(TO_INTEGER.to_bits()).wrapping_add(127);
    let scale = f32::from_bits(exponent << 23);
    if x >= -87.0 { power * scale } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn argmax(values: &[f32]) -> usize {
        Row::from(values).argmax()
    }

    #[test]
    fn the_first_of_equals_wins() {
        assert_eq!(argmax(&[1.0, 3.0, 3.0, 2.0]), 1);
        let mut long = vec![0.0; 5 * BLOCK];
        long[BLOCK + 7] = 1.0;
        long[3 * BLOCK] = 1.0;
        assert_eq!(argmax(&long), BLOCK + 7);
    }

    #[test]
    fn odd_values_never_win() {
        let (nan, inf) = (f32::NAN, f32::INFINITY);
        assert_eq!(argmax(&[nan, -1.0, nan]), 1);
        assert_eq!(argmax(&[0.0, inf, nan, inf]), 1);
        assert_eq!(argmax(&[nan; 40]), 0);
        assert_eq!(argmax(&[-inf; 40]), 0);
        assert_eq!(argmax(&[]), 0);
    }

    #[test]
    fn exp_of_the_ends() {
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(-0.0), 1.0);
        assert!(exp(-87.0) > 0.0);
        assert_eq!([f32::NEG_INFINITY, -87.1, f32::MIN, f32::NAN].map(exp), [0.0; 4]);
    }

    proptest! {
        #[test]
        fn a_patched_row_is_its_changed_copy(
            row in prop::collection::vec(-9.0_f32..9.0, 1..3_000),
            changes in prop::collection::btree_map(0..3_000_usize, -9.0_f32..20.0, 0..9),
        ) {
            let mut changed = row.clone();
            let mut replaced: Vec<usize> = Vec::new();
            for (&at, &value) in changes.iter().filter(|it| *it.0 < row.len()) {
                changed[at] = value;
                replaced.push(at / BLOCK);
            }
            replaced.dedup();
            let blocks: Vec<&[f32]> = changed.chunks(BLOCK).collect();
            let copies = replaced.iter().map(|&at| blocks[at]).collect::<Vec<_>>().concat();
            let patched = Row::patched(&row, &replaced, &copies);
            prop_assert_eq!(patched.values().collect::<Vec<_>>(), &changed[..]);
            prop_assert_eq!(patched.argmax(), argmax(&changed));
            let mut tops = Vec::new();
            prop_assert_eq!(Peaks::find(patched, &mut tops).top(), max(&changed));
            let weight = |at, value| value * at as f32;
            prop_assert_eq!(sum_blocks(patched.blocks(), weight), sum(&changed, weight));
        }

        #[test]
        fn exp_is_close(x in -87.0_f32..=0.0) {
            let exact = f64::from(x).exp();
            prop_assert!((f64::from(exp(x)) / exact - 1.0).abs() < 4e-7, "{} {}", exp(x), exact);
        }

        #[test]
        fn argmax_is_the_first_maximum(
            row in prop::collection::vec(prop_oneof![-3.0_f32..3.0, Just(f32::NAN), Just(1.0)], 1..1500),
        ) {
            let naive = row.iter().enumerate().filter(|(_, logit)| !logit.is_nan())
                .fold(None, |best, (at, &logit)| match best {
                    Some((_, top)) if logit <= top => best,
                    _ => Some((at, logit)),
                });
            prop_assert_eq!(argmax(&row), naive.map_or(0, |(at, _)| at));
        }
    }
}
