//! The share of answers that go on.

/// Answers of about one length, as an engine counts them: of `least` tokens and more, up to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerBucket {
    /// The shortest, in tokens.
    pub least: u32,
    /// How many ended by themselves.
    pub ended: u32,
    /// How many were cut off at such a length, and might have gone on.
    pub censored: u32,
}

/// Answers that count for a prefix's law beside its own: with so many of its own, both count alike.
const SHRINK: f64 = 20.0;
/// Answers that never end, beside those that were seen: with few observations a law says that answers go
/// on to their cap.
const UNENDING: f64 = 3.0;

/// A law of answer lengths: for a number of tokens, the share of answers that have as many. Before the
/// first step it is 1; after the last, nothing is known and answers go on.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Law {
    /// Token counts, growing.
    from: Vec<u32>,
    /// Shares, falling.
    longer: Vec<f64>,
}

impl Law {
    /// The estimate from counts by bucket, the shortest first; a bucket ends where the next begins, and the
    /// last at `end`.
    pub(crate) fn of(buckets: &[(u32, f64, f64)], end: u32) -> Self {
        Self::estimate(buckets, end, UNENDING, |_, _| 0.0)
    }

    /// The law of a prefix with these counts, drawn towards this one.
    pub(crate) fn refined(&self, buckets: &[AnswerBucket]) -> Self {
        let counts: Vec<_> = buckets
            .iter()
            .map(|it| (it.least, f64::from(it.ended), f64::from(it.censored)))
            .collect();
        let own: f64 = counts.iter().map(|(_, ended, censored)| ended + censored).sum();
        if own == 0.0 || buckets.windows(2).any(|pair| pair[0].least >= pair[1].least) {
            return self.clone();
        }
        // Between the buckets that counted something this law speaks alone.
        let mut all = Vec::with_capacity(counts.len() + self.from.len());
        all.extend_from_slice(&counts);
        all.extend(self.from.iter().map(|from| (*from, 0.0, 0.0)));
        all.sort_unstable_by_key(|it| it.0);
        all.dedup_by(|late, kept| {
            let same = late.0 == kept.0;
            if same {
                *kept = (kept.0, kept.1 + late.1, kept.2 + late.2);
            }
            same
        });
        let last = all.last().map_or(1, |it| it.0.saturating_mul(2).max(1));
        Self::estimate(&all, last, SHRINK, |from, to| 1.0 - self.at(to) / self.at(from))
    }

    /// Kaplan-Meier with `weight` further answers at risk in each bucket, of which the share that `prior`
    /// says ends there.
    fn estimate(
        buckets: &[(u32, f64, f64)],
        end: u32,
        weight: f64,
        prior: impl Fn(u32, u32) -> f64,
    ) -> Self {
        let mut at_risk: f64 = buckets.iter().map(|(_, ended, censored)| ended + censored).sum();
        let (mut from, mut longer) = (vec![0], vec![1.0]);
        let mut share = 1.0;
        for (at, (least, ended, censored)) in buckets.iter().enumerate() {
            let to = buckets.get(at + 1).map_or(end, |next| next.0);
            // Of those cut off in the bucket, half count as having been there for all of it.
            let there = (at_risk - censored / 2.0).max(0.0) + weight;
            let hazard = (ended + weight * prior(*least, to)) / there;
            share *= 1.0 - hazard.clamp(0.0, 1.0);
            at_risk = (at_risk - ended - censored).max(0.0);
            if *least > *from.last().unwrap_or(&0) {
                from.push(*least);
                longer.push(*longer.last().unwrap_or(&1.0));
            }
            from.push(to);
            longer.push(share);
        }
        Self { from, longer }
    }

    /// The share of answers of at least `tokens` tokens.
    pub(crate) fn at(&self, tokens: u32) -> f64 {
        let next = self.from.partition_point(|from| *from <= tokens);
        let Some(before) = next.checked_sub(1) else { return 1.0 };
        let Some(to) = self.from.get(next) else { return self.longer[before] };
        let along = f64::from(tokens - self.from[before]) / f64::from(to - self.from[before]);
        self.longer[before] + (self.longer[next] - self.longer[before]) * along
    }

    /// Tokens still to come of an answer that has `generated`, at this share of the answers like it, 0 to
    /// 1: 0 is the longest. At least 1, at most `most`.
    pub(crate) fn left(&self, generated: u32, share: f64, most: u32) -> u32 {
        let wanted = self.at(generated.saturating_add(1)) * share;
        let next = self.longer.partition_point(|longer| *longer > wanted);
        self.length_at(next, wanted, generated, most)
    }

    /// What is left of an answer that ends before the step `next`, where a share of `wanted` is left.
    fn length_at(&self, next: usize, wanted: f64, generated: u32, most: u32) -> u32 {
        let (Some(to), Some(before)) = (self.from.get(next), next.checked_sub(1)) else {
            return most.max(1);
        };
        let (high, low) = (self.longer[before], self.longer[next]);
        let along = if high > low { (high - wanted) / (high - low) } else { 1.0 };
        let length = f64::from(self.from[before]) + along * f64::from(to - self.from[before]);
        #[expect(clippy::cast_possible_truncation, reason = "float to int casts saturate")]
        #[expect(clippy::cast_sign_loss, reason = "it is not negative")]
        let length = length as u32;
        length.saturating_sub(generated).clamp(1, most.max(1))
    }

    /// Tokens still to come at each of `count` evenly spaced shares, the longest first: [`Law::left`] for all
    /// of them in one pass.
    pub(crate) fn quantiles(&self, generated: u32, count: u32, most: u32, out: &mut Vec<u32>) {
        out.clear();
        let there = self.at(generated.saturating_add(1));
        let mut next = self.longer.len();
        for stratum in 0..count {
            let wanted = there * (f64::from(stratum) + 0.5) / f64::from(count);
            while next > 0 && self.longer[next - 1] <= wanted {
                next -= 1;
            }
            out.push(self.length_at(next, wanted, generated, most));
        }
    }

    /// Mean tokens of an answer with this cap.
    pub(crate) fn mean(&self, cap: u32) -> f64 {
        let mut mean = 0.0;
        for (at, from) in self.from.iter().enumerate().take_while(|(_, from)| **from < cap) {
            let to = self.from.get(at + 1).map_or(cap, |to| (*to).min(cap));
            mean += f64::from(to - from) * (self.longer[at] + self.at(to)) / 2.0;
        }
        if self.from.is_empty() { f64::from(cap) } else { mean }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_observations_answers_go_to_their_cap() {
        for law in [Law::default(), Law::of(&[], 100), Law::of(&[(0, 0.0, 0.0)], 100)] {
            assert_eq!([0.01, 0.5, 0.99].map(|share| law.left(0, share, 512)), [512; 3]);
            assert_eq!((law.left(7, 0.5, 9), law.at(1_000)), (9, 1.0));
            assert_eq!(law.mean(64), 64.0);
        }
    }

    #[test]
    fn answers_that_were_cut_off_count_as_going_on() {
        // A thousand answers: half end within ten tokens, the others are cut off there.
        let law = Law::of(&[(0, 500.0, 0.0), (10, 0.0, 500.0)], 20);
        assert!((law.at(10) - 0.5).abs() < 0.01, "{}", law.at(10));
        assert_eq!(law.at(400), law.at(10), "nothing is known of longer ones");
        assert_eq!(law.left(0, 0.4, 300), 300);
        assert!(law.left(0, 0.6, 300) <= 10);
        assert_eq!(law.left(12, 0.9, 300), 300, "it has outlived those that end");
    }

    #[test]
    fn a_prefix_is_drawn_towards_all_until_it_has_seen_enough() {
        let all = Law::of(&[(0, 900.0, 0.0), (16, 50.0, 0.0), (64, 0.0, 50.0)], 512);
        let long = |count| {
            [
                AnswerBucket { least: 8, ended: 0, censored: 0 },
                AnswerBucket { least: 256, ended: count, censored: 0 },
            ]
        };
        let shares = [1, 20, 1_000].map(|count| all.refined(&long(count)).at(60));
        assert!(shares[0] < 0.3 && shares[1] > shares[0] && shares[2] > 0.9, "{shares:?}");
        assert_eq!(all.refined(&[]), all);
        let unsorted = [long(5)[1], long(5)[0]];
        assert_eq!(all.refined(&unsorted), all, "garbled");
    }

    #[test]
    fn one_pass_gives_what_single_questions_give() {
        let law = Law::of(&[(0, 9.0, 0.0), (16, 5.0, 3.0), (64, 1.0, 5.0), (90, 4.0, 0.0)], 200);
        for generated in [0, 15, 16, 80, 500] {
            let mut all = Vec::new();
            law.quantiles(generated, 64, 300, &mut all);
            let share = |at: u32| (f64::from(at) + 0.5) / 64.0;
            let single: Vec<u32> = (0..64).map(|at| law.left(generated, share(at), 300)).collect();
            assert_eq!(all, single, "{generated}");
        }
    }

    #[test]
    fn the_mean_is_that_of_the_law() {
        let law = Law::of(&[(0, 1e9, 0.0)], 100);
        assert!((law.mean(1_000) - 50.0).abs() < 0.01, "{}", law.mean(1_000));
        assert!((law.mean(50) - 37.5).abs() < 0.01, "{}", law.mean(50));
    }
}
