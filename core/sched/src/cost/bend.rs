//! How the cost of decoding sequences bends away from a straight line.

/// Knots: the last is at as many sequences as llama.cpp can tell apart.
const KNOTS: usize = 9;

/// What 1, 2, 4, ... 256 decoding sequences take beyond a straight line, in microseconds; straight
/// between these, and constant after the last. May be negative.
///
/// Weights are read once for all rows of a step, so the second sequence costs less than the first; and
/// kernels take rows in groups.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bend([f64; KNOTS]);

impl Bend {
    /// A straight line.
    pub const NONE: Self = Self([0.0; KNOTS]);

    /// The bend with these values at its first knots; it stays at the last of them. Values beyond 256
    /// sequences are left out.
    #[must_use]
    pub fn new(values: &[f64]) -> Self {
        let last = values.last().copied().unwrap_or_default();
        let mut knots = [last; KNOTS];
        knots.iter_mut().zip(values).for_each(|(knot, value)| *knot = *value);
        Self(knots)
    }

    /// The values at 1, 2, 4, ... sequences, up to where it stays; nothing of a straight line.
    /// [`Bend::new`] makes the same bend of them.
    #[must_use]
    pub fn values(&self) -> &[f64] {
        let Self(knots) = self;
        if *self == Self::NONE {
            return &[];
        }
        let stays = knots.iter().rev().take_while(|knot| **knot == knots[KNOTS - 1]).count();
        &knots[..=KNOTS - stays.max(1)]
    }

    /// The value at `decodes` sequences; none without any.
    #[must_use]
    pub fn at(&self, decodes: u32) -> f64 {
        let Some(knot) = decodes.checked_ilog2() else { return 0.0 };
        let at = |knot: u32| self.0[(knot as usize).min(KNOTS - 1)];
        let width = 1_u32 << knot;
        let along = f64::from(decodes - width) / f64::from(width);
        at(knot) + (at(knot + 1) - at(knot)) * along
    }

    /// Whether all values are numbers.
    pub(super) fn is_finite(&self) -> bool {
        self.0.iter().all(|value| value.is_finite())
    }

    /// Whether the line of `per_decode_us` bends so far that more sequences would cost less.
    pub(super) fn falls(&self, per_decode_us: f64) -> bool {
        // A sum of rounded figures may fall by as much as they were rounded.
        const ROUNDING_US: f64 = 1e-6;
        let mut before = (0.0, 0.0);
        self.0.iter().zip(0_i32..).any(|(value, knot)| {
            let (from, value_from) = std::mem::replace(&mut before, (2_f64.powi(knot), *value));
            let rise = value - value_from + per_decode_us * (before.0 - from);
            rise < -ROUNDING_US
        })
    }
}
