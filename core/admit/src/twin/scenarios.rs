//! How long everybody's answer is, in each of many scenarios.
//!
//! A request's draws depend on its id and the number of the scenario alone (common random numbers), so
//! that two simulations of one state differ in what was changed and in nothing else. The draws of one
//! request are stratified: over all scenarios they are the quantiles of its law, in an order of its own.

use std::sync::{Arc, OnceLock};

use units::{Micros, RequestId};

use super::doubt::Doubt;
use crate::{
    forecast::{Fate, Outlook, Run},
    lengths::Law,
};

/// Scenarios of one outlook.
#[derive(Clone, Debug)]
pub(crate) struct Scenarios {
    count: u32,
    /// How much slower the machine is in each.
    pub(crate) doubts: Vec<Doubt>,
    /// Tokens left, of each request of the outlook, scenario by scenario.
    left: Vec<u32>,
    /// Whether each is in time when nobody comes, scenario by scenario; computed when it is first asked
    /// for.
    in_time: OnceLock<Vec<bool>>,
}

impl Scenarios {
    /// Draws. `laws` gives the law of each request of the outlook, and `slower` how much slower the machine
    /// is at a share of all moments, as a logarithm.
    pub(crate) fn new(
        outlook: &Outlook,
        count: u32,
        laws: impl Fn(RequestId) -> Arc<Law>,
        slower: impl Fn(f64) -> f64,
    ) -> Self {
        // In no order, so that the first few scenarios stand for all.
        let doubts =
            (0..count).map(|at| Doubt::of(slower(share(RequestId(0), at, count)))).collect();
        let who = outlook.who.len();
        let mut left = vec![1; who * count as usize];
        let mut quantiles = Vec::with_capacity(count as usize);
        for sequence in outlook.state.everybody() {
            let index = sequence.who as usize;
            let known = outlook.who[index];
            laws(known.id).quantiles(known.generated, count, sequence.left, &mut quantiles);
            for at in 0..count {
                let stratum = stratum(known.id, at, count) as usize;
                left[at as usize * who + index] = quantiles[stratum];
            }
        }
        Self { count, doubts, left, in_time: OnceLock::new() }
    }

    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// Gives the requests of a simulation that has just started their lengths.
    pub(crate) fn set(&self, at: u32, run: &mut Run, who: usize) {
        let left = &self.left[at as usize * who..][..who];
        for sequence in run.state.everybody_mut() {
            if let Some(left) = left.get(sequence.who as usize) {
                sequence.left = *left;
            }
        }
    }

    /// In how many of the first `seen` scenarios a request is in time when nobody comes.
    pub(crate) fn in_time(
        &self,
        outlook: &Outlook,
        now: Micros,
        run: &mut Run,
        index: usize,
        seen: u32,
    ) -> u32 {
        let all = self.in_time.get_or_init(|| self.alone(outlook, now, run));
        let own = all.iter().skip(index).step_by(outlook.who.len()).take(seen as usize);
        own.map(|in_time| u32::from(*in_time)).sum()
    }

    fn alone(&self, outlook: &Outlook, now: Micros, run: &mut Run) -> Vec<bool> {
        let who = outlook.who.len();
        let end = horizon(outlook, None);
        let mut in_time = Vec::with_capacity(who * self.count as usize);
        for at in 0..self.count {
            run.start(&outlook.state, who);
            self.set(at, run, who);
            run.finish(outlook.fixed(), outlook.busy_until, end);
            let doubt = self.doubts[at as usize];
            in_time.extend(
                outlook
                    .who
                    .iter()
                    .zip(&run.fates)
                    .map(|(who, fate)| is_in_time(doubt, now, *fate, who.deadline, who.first_by)),
            );
        }
        in_time
    }
}

/// Whether both deadlines are kept.
pub(crate) fn is_in_time(
    doubt: Doubt,
    now: Micros,
    fate: Fate,
    deadline: Micros,
    first_by: Micros,
) -> bool {
    let first = first_by == Micros(u64::MAX) || doubt.apply(now, fate.first) <= first_by;
    first && doubt.apply(now, fate.end) <= deadline
}

/// Nobody who is watched cares for what happens later.
pub(crate) fn horizon(outlook: &Outlook, candidate: Option<Micros>) -> Micros {
    let promised = outlook.state.everybody().filter(|it| it.watched).map(|it| it.key.deadline);
    let last = promised.chain(candidate).filter(|it| *it < Micros(u64::MAX)).max();
    let from = outlook.state.now;
    // In scenarios of a faster machine who is a little late is in time.
    last.map_or(Micros(u64::MAX), |last| last + units::Span(last.since(from).0 / 2))
}

/// The share of answers that the answer of a request belongs to in a scenario. 0 is the longest.
pub(crate) fn share(id: RequestId, at: u32, count: u32) -> f64 {
    (f64::from(stratum(id, at, count)) + 0.5) / f64::from(count)
}

/// The stratum of a request in a scenario: all of them in turn, in an order that is the request's own.
fn stratum(id: RequestId, at: u32, count: u32) -> u32 {
    let seed = mix(id);
    let mask = u64::from(count - 1);
    let bits = count.trailing_zeros();
    // A permutation of the strata: multiplying by odd numbers and folding are one to one.
    let mut stratum = u64::from(at);
    for round in 0..3 {
        let key = seed >> (round * 16);
        stratum = (stratum ^ key) & mask;
        stratum = stratum.wrapping_mul(key | 1) & mask;
        stratum ^= stratum >> (bits / 2 + 1);
    }
    u32::try_from(stratum).expect("it is masked")
}

/// SplitMix64's finaliser over both halves of an id.
fn mix(id: RequestId) -> u64 {
    #[expect(clippy::cast_possible_truncation, reason = "both halves are mixed")]
    let mut value = (id.0 as u64) ^ ((id.0 >> 64) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_goes_through_all_strata_in_an_order_of_its_own() {
        for count in [1, 2, 16, 64, 256] {
            let mut orders = Vec::new();
            for id in 0..20 {
                let shares: Vec<f64> =
                    (0..count).map(|at| share(RequestId(id), at, count)).collect();
                let mut sorted = shares.clone();
                sorted.sort_unstable_by(f64::total_cmp);
                for (at, share) in sorted.iter().enumerate() {
                    assert_eq!(*share, (at as f64 + 0.5) / f64::from(count), "{id} of {count}");
                }
                orders.push(shares);
            }
            orders.sort_unstable_by(|one, two| one.partial_cmp(two).expect("numbers"));
            orders.dedup();
            assert!(count < 16 || orders.len() > 15, "{} orders of {count}", orders.len());
        }
    }
}
