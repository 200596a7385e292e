//! A world that breaks a rule, made small: what can be left out of it is.

use crate::{Scenario, Truth};

/// Worlds that are tried.
const TRIES_MAX: u32 = 400;

/// The smallest world that was found to fail as `scenario` does: fewer requests, fewer faults, one engine,
/// no noise. Tries the largest cuts first, until none helps any more.
#[must_use]
pub fn shrink(scenario: &Scenario, mut fails: impl FnMut(&Scenario) -> bool) -> Scenario {
    let mut smallest = scenario.clone();
    let mut tries = 0;
    loop {
        let cuts = cuts(&smallest);
        let smaller = cuts.into_iter().find(|cut| {
            tries += 1;
            tries <= TRIES_MAX && fails(cut)
        });
        match smaller {
            Some(smaller) => smallest = smaller,
            None => return smallest,
        }
    }
}

/// Worlds with something less, the most promising first.
fn cuts(from: &Scenario) -> Vec<Scenario> {
    let mut cuts = Vec::new();
    let mut cut = |change: &dyn Fn(&mut Scenario)| {
        let mut smaller = from.clone();
        change(&mut smaller);
        if smaller != *from {
            cuts.push(smaller);
        }
    };
    let requests = from.clients.arrivals.len();
    // The last half, a quarter, an eighth, ... down to the last one.
    let mut size = requests.div_ceil(2);
    while size > 0 {
        cut(&|it| it.clients.arrivals.truncate(requests - size));
        size /= 2;
    }
    cut(&|it| it.faults.clear());
    for number in 0..from.faults.len() {
        cut(&|it| {
            it.faults.remove(number);
        });
    }
    cut(&|it| it.engines.truncate(1));
    cut(&|it| it.clients.leaving.clear());
    cut(&|it| it.clients.retries = false);
    cut(&|it| {
        for engine in &mut it.engines {
            engine.truth = Truth::exact(engine.truth.cost);
        }
    });
    // One request less, from the front: whoever comes later becomes another one.
    for first in 0..requests.min(24) {
        cut(&|it| {
            it.clients.arrivals.remove(first);
        });
    }
    cuts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::draw;

    #[test]
    fn what_does_not_matter_goes() {
        let world = (0..).map(draw).find(|it| it.clients.arrivals.len() > 40).expect("a large one");
        let small = shrink(&world, |it| it.clients.arrivals.len() >= 3);
        assert_eq!(small.clients.arrivals.len(), 3);
        assert!(small.faults.is_empty() && small.engines.len() == 1);
    }

    #[test]
    fn a_fault_that_matters_stays() {
        let world = (0..).map(draw).find(|it| it.faults.len() > 2).expect("one with faults");
        let matters = world.faults[1];
        let small = shrink(&world, |it| it.faults.contains(&matters));
        assert_eq!(small.faults, [matters]);
        assert_eq!(small.clients.arrivals, []);
    }
}
