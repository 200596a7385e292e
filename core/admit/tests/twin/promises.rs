//! Promises are kept, whoever comes later.

use std::cell::Cell;

use admit::{BestEffort, Policy, Tier, Twin};
use proptest::{prelude::*, strategy::ValueTree as _};

use crate::{
    asks::{Ask, crowd, to_the_cap},
    plant::{Fate, Plant},
};

fn ran(policy: Twin, asks: &[Ask]) -> Vec<Fate> {
    let mut plant = Plant::new(Policy::Twin(policy));
    plant.run(asks);
    plant.fates.into_values().collect()
}

fn broken(fates: &[Fate]) -> usize {
    fates.iter().filter(|it| it.tier == Some(Tier::Promised) && !it.is_kept()).count()
}

fn promised(fates: &[Fate]) -> usize {
    fates.iter().filter(|it| it.tier == Some(Tier::Promised)).count()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// The same calls give the same answers.
    #[test]
    fn the_same_crowd_hears_the_same(crowd in crowd()) {
        for policy in [Twin::CAPS, Twin::SCENARIOS, Twin::FULL] {
            prop_assert_eq!(ran(policy, &crowd), ran(policy, &crowd));
        }
    }
}

/// AD-9: where everything goes as foreseen (steps take what they should, answers go to their cap), promises are
/// kept whatever comes later, with and without best effort beside them. All but one in a thousand: 2 of
/// 45,800 were late by a step or so when ten times as many crowds were tried. A forecast does not know whether its
/// state was taken before or within a step, so that the turn of prompts, one step in eight, can come a step
/// sooner or later than foreseen; whether that is all of it was not found out.
#[test]
fn what_is_promised_on_caps_is_kept() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (mut made, mut missed) = (0, 0);
    for _ in 0..150 {
        let asks = to_the_cap(&crowd().new_tree(&mut runner).expect("a crowd").current());
        for best_effort in [BestEffort::Asked, BestEffort::Anyone] {
            let fates = ran(Twin { best_effort, ..Twin::CAPS }, &asks);
            made += promised(&fates);
            missed += broken(&fates);
        }
    }
    assert!(made > 2_000 && missed * 1_000 <= made, "{missed} of {made} broken");
}

/// Without the look at promises already made, later admissions break them: the check above can fail.
#[test]
fn without_the_impact_check_promises_are_broken() {
    let (with, without) = (Cell::new(0), Cell::new(0));
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    for _ in 0..20 {
        let asks = to_the_cap(&crowd().new_tree(&mut runner).expect("a crowd").current());
        let careless = Twin { impact: false, ..Twin::CAPS };
        with.set(with.get() + broken(&ran(Twin::CAPS, &asks)));
        without.set(without.get() + broken(&ran(careless, &asks)));
    }
    assert_eq!(with.get(), 0);
    assert!(without.get() > 5, "{} broken", without.get());
}

/// An answer that ends early may still make another late: who waits for its slot joins sooner, and answers
/// beside somebody who was foreseen to be alone by then. The margin covers nearly all of that.
#[test]
fn answers_that_end_early_hardly_break_promises() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (mut made, mut missed) = (0, 0);
    for _ in 0..40 {
        let asks = crowd().new_tree(&mut runner).expect("a crowd").current();
        let fates = ran(Twin::CAPS, &asks);
        made += promised(&fates);
        missed += broken(&fates);
    }
    assert!(made > 200 && missed * 100 <= made, "{missed} of {made} broken");
}

/// Nine in ten of promises over scenarios are kept even by a crowd of which nothing was learnt yet, and
/// there are promises at all.
#[test]
fn scenarios_promise_more_and_keep_nearly_all() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (mut made, mut missed, mut on_caps) = (0, 0, 0);
    for _ in 0..20 {
        let asks = crowd().new_tree(&mut runner).expect("a crowd").current();
        let fates = ran(Twin { level: 0.98, ..Twin::FULL }, &asks);
        made += promised(&fates);
        missed += broken(&fates);
        on_caps += promised(&ran(Twin::CAPS, &asks));
    }
    assert!(made > 100 && missed * 20 <= made, "{missed} of {made} broken");
    assert!(made > on_caps, "{made} promises, {on_caps} on caps");
}
