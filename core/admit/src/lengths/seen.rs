//! Answers that were seen.

use std::sync::Arc;

use super::law::Law;

/// Answers of up to this many tokens have a bucket for each length; from there on there are [`FINE`]
/// buckets for each doubling.
const SINGLE: u32 = 16;
const FINE: u32 = 8;
const DOUBLINGS: u32 = 14;
const BUCKETS: usize = (SINGLE + FINE * DOUBLINGS) as usize;
/// Once so many are counted, all counts are halved: old answers fade.
const KEPT: f64 = 2_000.0;

/// Counts of answer lengths, old ones fading, and their law.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    ended: Vec<f64>,
    censored: Vec<f64>,
    total: f64,
    law: Arc<Law>,
}

impl Default for Seen {
    fn default() -> Self {
        let none = vec![0.0; BUCKETS];
        Self { ended: none.clone(), censored: none, total: 0.0, law: Arc::new(Law::default()) }
    }
}

impl Seen {
    /// An answer had `tokens` tokens; `ended` if by itself.
    pub(crate) fn observe(&mut self, tokens: u32, ended: bool) {
        let at = bucket(tokens);
        if ended {
            self.ended[at] += 1.0;
        } else {
            self.censored[at] += 1.0;
        }
        self.total += 1.0;
        if self.total > KEPT {
            self.ended.iter_mut().chain(&mut self.censored).for_each(|count| *count /= 2.0);
            self.total /= 2.0;
        }
        let counts: Vec<_> = (0..BUCKETS)
            .map(|at| (least(at), self.ended[at], self.censored[at]))
            .filter(|(_, ended, censored)| ended + censored > 0.0)
            .collect();
        self.law = Arc::new(self.estimate(&counts));
    }

    fn estimate(&self, counts: &[(u32, f64, f64)]) -> Law {
        // Only buckets that counted something, each up to where the next one of all begins.
        let mut rows = Vec::with_capacity(2 * counts.len());
        for (from, ended, censored) in counts {
            rows.push((*from, *ended, *censored));
            rows.push((least(bucket(*from) + 1), 0.0, 0.0));
        }
        rows.dedup_by(|late, kept| {
            let same = late.0 == kept.0;
            if same {
                *kept = (kept.0, kept.1 + late.1, kept.2 + late.2);
            }
            same
        });
        let end = rows.last().map_or(1, |it| it.0 + 1);
        Law::of(&rows, end)
    }

    /// The law of all answers.
    pub(crate) fn law(&self) -> &Arc<Law> {
        &self.law
    }

    /// How many answers the law rests on.
    pub(crate) fn total(&self) -> f64 {
        self.total
    }
}

fn bucket(tokens: u32) -> usize {
    let Some(doubling) = (tokens / SINGLE).checked_ilog2() else { return tokens as usize };
    let width = SINGLE << doubling;
    let fine = u64::from(tokens - width) * u64::from(FINE) / u64::from(width);
    let at = u64::from(SINGLE + FINE * doubling) + fine;
    usize::try_from(at).unwrap_or(BUCKETS).min(BUCKETS - 1)
}

/// Where a bucket begins.
fn least(bucket: usize) -> u32 {
    let at = u32::try_from(bucket).unwrap_or(u32::MAX);
    let Some(behind) = at.checked_sub(SINGLE) else { return at };
    let width = SINGLE << (behind / FINE).min(DOUBLINGS);
    width + width / FINE * (behind % FINE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other() {
        for at in 0..BUCKETS - 1 {
            assert!(least(at) < least(at + 1), "{at}");
            assert_eq!(bucket(least(at)), at, "begins at {}", least(at));
            assert_eq!(bucket(least(at + 1) - 1), at, "ends before {}", least(at + 1));
        }
        assert_eq!(bucket(u32::MAX), BUCKETS - 1);
    }

    #[test]
    fn the_law_follows_what_is_seen_and_forgets_what_was() {
        let mut seen = Seen::default();
        (0..1_000).for_each(|index| seen.observe(20 + index % 20, true));
        assert!(seen.law().at(60) < 0.01 && seen.law().at(19) > 0.99);
        (0..6_000).for_each(|index| seen.observe(200 + index % 20, true));
        assert!(seen.law().at(60) > 0.9, "{}", seen.law().at(60));
    }
}
