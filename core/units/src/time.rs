//! Instants and spans in whole microseconds.

use std::{
    fmt,
    iter::Sum,
    ops::{Add, AddAssign, Sub},
};

/// An instant: microseconds since an origin that the holder of the clock chose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Micros(pub u64);

/// A length of time in microseconds. Arithmetic saturates: a huge budget stays huge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(pub u64);

impl Micros {
    /// Time passed since `earlier`; zero when `earlier` lies in the future.
    #[must_use]
    pub fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }

    /// Time left until `self`; zero when it has passed.
    #[must_use]
    pub fn until(self, now: Self) -> Span {
        self.since(now)
    }
}

impl Span {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// A span of whole milliseconds.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000))
    }

    /// A span of whole seconds.
    #[must_use]
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000_000))
    }

    /// A span of fractional seconds, rounded to the nearest microsecond. Negative and NaN give zero,
    /// more than can be held gives the longest span.
    #[must_use]
    pub fn from_secs_f64(secs: f64) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "float to int casts saturate")]
        #[expect(clippy::cast_sign_loss, reason = "negative saturates to zero, as documented")]
        Self((secs * 1e6).round() as u64)
    }

    /// In seconds.
    #[must_use]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Scaled by `factor`, rounded; see [`Span::from_secs_f64`] for odd factors.
    #[must_use]
    pub fn mul_f64(self, factor: f64) -> Self {
        Self::from_secs_f64(self.as_secs_f64() * factor)
    }

    /// What is left after `other`; zero when nothing is.
    #[must_use]
    pub fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Add<Span> for Micros {
    type Output = Self;
    fn add(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl Sub<Span> for Micros {
    type Output = Self;
    fn sub(self, span: Span) -> Self {
        Self(self.0.saturating_sub(span.0))
    }
}

impl AddAssign<Span> for Micros {
    fn add_assign(&mut self, span: Span) {
        *self = *self + span;
    }
}

impl Add for Span {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Span {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sum for Span {
    fn sum<I: Iterator<Item = Self>>(spans: I) -> Self {
        spans.fold(Self::ZERO, Add::add)
    }
}

impl From<std::time::Duration> for Span {
    fn from(duration: std::time::Duration) -> Self {
        Self(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX))
    }
}

impl From<Span> for std::time::Duration {
    fn from(span: Span) -> Self {
        Self::from_micros(span.0)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            us if us < 10_000 => write!(out, "{us} us"),
            us if us < 10_000_000 => write!(out, "{} ms", us / 1_000),
            us => write!(out, "{} s", us / 1_000_000),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_steps_back_yields_zero() {
        assert_eq!(Micros(5).since(Micros(9)), Span::ZERO);
        assert_eq!(Micros(5).until(Micros(9)), Span::ZERO);
    }

    #[test]
    fn arithmetic_saturates() {
        assert_eq!(Micros(7) + Span(u64::MAX), Micros(u64::MAX));
        assert_eq!(Span::from_secs(u64::MAX), Span(u64::MAX));
        assert_eq!([Span(u64::MAX), Span(1)].into_iter().sum::<Span>(), Span(u64::MAX));
    }

    #[test]
    fn odd_floats_have_a_meaning() {
        assert_eq!(Span::from_secs_f64(f64::NAN), Span::ZERO);
        assert_eq!(Span::from_secs_f64(-1.0), Span::ZERO);
        assert_eq!(Span::from_secs_f64(f64::INFINITY), Span(u64::MAX));
        assert_eq!(Span::from_millis(1_500).as_secs_f64(), 1.5);
    }
}
