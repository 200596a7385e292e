//! When a refused request should come back.
//!
//! The time until enough of what is in the system has finished, at the measured rate, if everybody
//! uses all the tokens that they may. Running requests share the engine evenly, so the one with the
//! least left finishes first.

use rand::{Rng, RngExt as _};
use units::Span;

use crate::Totals;

/// Nobody is asked back sooner.
const MIN: Span = Span::from_secs(1);
/// Nobody is told to stay away for longer: SDKs ignore a minute or more.
const MAX: Span = Span::from_secs(59);
/// Those refused together come back spread over this much more time, never earlier than is true.
const JITTER: f64 = 0.25;

/// What leaves the system when one request finishes, and the work until then.
pub(crate) type Leaving = Totals;

/// Time until `shortfall` has left, or everybody has. `done` of the work of `leaving` was done since
/// it was counted.
pub(crate) fn drain_time(
    mut leaving: Vec<Leaving>,
    done: u64,
    shortfall: Totals,
    slots: u32,
    rate: f64,
) -> Span {
    leaving.sort_unstable_by_key(|one| one.work);
    let beside = slots.max(1) as usize - 1;
    let mut left = Totals::default();
    let mut work = 0;
    for (index, one) in leaving.iter().enumerate() {
        left = left + *one;
        // Until it finishes, its neighbours get as much as it does.
        let neighbours = (leaving.len() - index - 1).min(beside) as u64;
        work = left.work + neighbours * one.work;
        let enough = left.requests >= shortfall.requests
            && left.tokens >= shortfall.tokens
            && left.blocks >= shortfall.blocks;
        if enough {
            break;
        }
    }
    Span::from_secs_f64(work.saturating_sub(done) as f64 / rate)
}

/// Moves `base` upwards at random, within the bounds.
pub(crate) fn jittered(base: Span, rng: &mut impl Rng) -> Span {
    let longest_base = MAX.mul_f64(1.0 / (1.0 + JITTER));
    let base = base.clamp(MIN, longest_base);
    base.mul_f64(1.0 + JITTER * rng.random::<f64>()).clamp(MIN, MAX)
}

/// For those whom no wait can help.
pub(crate) fn longest() -> Span {
    MAX
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;
    use rand_chacha::ChaCha8Rng;

    use super::*;

    fn request(work: u64) -> Leaving {
        Totals { requests: 1, tokens: 100, blocks: 7, work, ..Totals::default() }
    }

    fn wait_for(requests: u64, slots: u32) -> Span {
        let shortfall = Totals { requests, ..Totals::default() };
        drain_time(vec![request(400), request(100), request(200)], 0, shortfall, slots, 100.0)
    }

    #[test]
    fn the_shortest_finishes_first_and_shares_the_engine_meanwhile() {
        assert_eq!(wait_for(1, 8), Span::from_secs(3));
        assert_eq!(wait_for(2, 8), Span::from_secs(5));
        assert_eq!(wait_for(3, 8), Span::from_secs(7));
        assert_eq!(wait_for(1, 1), Span::from_secs(1), "alone in its slot");
    }

    #[test]
    fn waiting_for_more_than_there_is_means_waiting_for_all_of_it() {
        assert_eq!(wait_for(9, 8), Span::from_secs(7));
        assert_eq!(drain_time(Vec::new(), 0, Totals::default(), 0, 100.0), Span::ZERO);
    }

    #[test]
    fn a_rate_that_is_none_still_gives_an_answer() {
        for rate in [0.0, f64::NAN, -1.0, f64::INFINITY, f64::MIN_POSITIVE] {
            let wait = drain_time(vec![request(100)], 0, Totals::default(), 8, rate);
            let told = jittered(wait, &mut ChaCha8Rng::seed_from_u64(1));
            assert!((MIN..=MAX).contains(&told), "{rate}: {told}");
        }
    }

    #[test]
    fn jitter_spreads_upwards_and_stays_within_the_bounds() {
        let mut rng = ChaCha8Rng::seed_from_u64(7);
        let mut told = |base| (0..200).map(|_| jittered(base, &mut rng)).collect::<Vec<_>>();
        let waits = told(Span::from_secs(8));
        assert!(waits.iter().all(|wait| (Span::from_secs(8)..=Span::from_secs(10)).contains(wait)));
        let spread = waits.iter().max().expect("some").0 - waits.iter().min().expect("some").0;
        assert!(spread > 1_500_000, "{spread} us");
        assert!(told(Span(u64::MAX)).iter().all(|wait| *wait <= MAX));
        assert!(told(Span::ZERO).iter().all(|wait| *wait >= MIN));
    }
}
