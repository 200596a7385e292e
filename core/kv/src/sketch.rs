//! How long answers were, in a few bytes.

/// Where buckets begin, but for the first, which begins at 0: each at the square root of two times the
/// one before.
const BOUNDS: [u32; 23] = [
    4, 6, 8, 11, 16, 23, 32, 45, 64, 91, 128, 181, 256, 362, 512, 724, 1024, 1448, 2048, 2896,
    4096, 5793, 8192,
];
const BUCKETS: usize = BOUNDS.len() + 1;

/// Counts of answer lengths: what an estimate of the chance to end by a length needs.
///
/// Counts that no longer fit are halved, all together, so that the shares stay and old answers weigh
/// less.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sketch {
    ended: [u16; BUCKETS],
    censored: [u16; BUCKETS],
}

/// Answers of about one length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// The shortest, in tokens.
    pub least: u32,
    /// How many ended by themselves at such a length.
    pub ended: u32,
    /// How many were seen up to such a length and might have gone on.
    pub censored: u32,
}

impl Sketch {
    /// Counts an answer of which `tokens` tokens were seen; `ended` if it had no more.
    pub fn observe(&mut self, tokens: u32, ended: bool) {
        let at = BOUNDS.partition_point(|bound| *bound <= tokens);
        let counts = if ended { &self.ended } else { &self.censored };
        if counts[at] == u16::MAX {
            *self = self.scaled(|count| count / 2);
        }
        let counts = if ended { &mut self.ended } else { &mut self.censored };
        counts[at] += 1;
    }

    /// Counts all that `other` counted.
    pub fn merge(&mut self, other: &Self) {
        let overflows = |one: &[u16; BUCKETS], two: &[u16; BUCKETS]| {
            one.iter().zip(two).any(|(one, two)| one.checked_add(*two).is_none())
        };
        let halved =
            overflows(&self.ended, &other.ended) || overflows(&self.censored, &other.censored);
        let weigh = |count: u16| if halved { count / 2 } else { count };
        *self = self.scaled(weigh);
        let other = other.scaled(weigh);
        let add = |counts: &mut [u16; BUCKETS], more: &[u16; BUCKETS]| {
            counts.iter_mut().zip(more).for_each(|(count, more)| *count += more);
        };
        add(&mut self.ended, &other.ended);
        add(&mut self.censored, &other.censored);
    }

    /// All buckets, the shortest answers first.
    pub fn buckets(&self) -> impl Iterator<Item = Bucket> {
        let least = std::iter::once(0).chain(BOUNDS);
        least.zip(self.ended).zip(self.censored).map(|((least, ended), censored)| Bucket {
            least,
            ended: ended.into(),
            censored: censored.into(),
        })
    }

    /// How many answers it counts, those that were halved away not among them.
    #[must_use]
    pub fn total(&self) -> u32 {
        self.ended.iter().chain(&self.censored).map(|count| u32::from(*count)).sum()
    }

    fn scaled(&self, weigh: impl Fn(u16) -> u16) -> Self {
        Self { ended: self.ended.map(&weigh), censored: self.censored.map(&weigh) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_lies_in_the_bucket_of_its_length() {
        let seen = |tokens| {
            let mut sketch = Sketch::default();
            sketch.observe(tokens, true);
            let bucket = sketch.buckets().find(|bucket| bucket.ended == 1).expect("counted");
            bucket.least
        };
        assert_eq!(
            [0, 3, 4, 5, 6, 62, 8191, 8192, u32::MAX].map(seen),
            [0, 0, 4, 4, 6, 45, 5793, 8192, 8192]
        );
    }

    #[test]
    fn bounds_grow_by_the_square_root_of_two() {
        for (at, bound) in BOUNDS.iter().enumerate() {
            assert_eq!(f64::from(*bound), 2f64.powf(2.0 + at as f64 / 2.0).round());
        }
    }

    #[test]
    fn counts_that_no_longer_fit_are_halved_together() {
        let mut sketch = Sketch::default();
        (0..u32::from(u16::MAX)).for_each(|_| sketch.observe(10, true));
        (0..100).for_each(|_| sketch.observe(500, false));
        assert_eq!(sketch.total(), 65_635);
        sketch.observe(10, true);
        assert_eq!(sketch.total(), 32_767 + 1 + 50);
    }

    #[test]
    fn merged_sketches_count_both() {
        let mut one = Sketch::default();
        let mut two = Sketch::default();
        one.observe(10, true);
        two.observe(10, true);
        two.observe(9_000, false);
        one.merge(&two);
        assert_eq!((one.total(), one.buckets().map(|bucket| bucket.ended).max()), (3, Some(2)));
        (0..u32::from(u16::MAX) - 1).for_each(|_| two.observe(10, true));
        one.merge(&two);
        assert_eq!(one.total(), 1 + 32_767, "all counts were halved, the single ones to none");
    }
}
