//! Refusals explain themselves, and nothing is promised in the dark.

use admit::{Policy, Tier, Twin};
use units::{Micros, Span};

use crate::{
    asks::{Ask, ONE},
    plant::{Fate, Plant},
};

fn heard(asks: &[Ask]) -> Vec<Fate> {
    let mut plant = Plant::new(Policy::Twin(Twin::CAPS));
    plant.run(asks);
    plant.fates.into_values().collect()
}

fn says(fate: &Fate, wanted: &str) {
    let refusal = fate.refusal.as_deref().unwrap_or("nothing");
    assert!(refusal.contains(wanted), "{refusal:?} does not say {wanted:?}");
}

#[test]
fn an_idle_engine_promises_what_it_can_do() {
    let fates = heard(&[ONE]);
    assert_eq!((fates[0].tier, fates[0].is_kept()), (Some(Tier::Promised), true));
}

#[test]
fn what_even_an_idle_engine_cannot_do_is_refused_for_good() {
    let fates = heard(&[Ask { budget: Span::from_millis(300), ..ONE }]);
    says(&fates[0], "even in an idle engine");
}

#[test]
fn who_accepts_that_runs_without_a_promise() {
    let fates = heard(&[Ask { budget: Span::from_millis(300), best_effort: true, ..ONE }]);
    assert_eq!(fates[0].tier, Some(Tier::BestEffort));
}

#[test]
fn a_refusal_names_what_takes_the_time() {
    let first = Ask { cap: 400, answer: 400, budget: Span::from_secs(9), ..ONE };
    let crowd: Vec<Ask> = (0..12).map(|at| Ask { at: Micros(at), ..first }).collect();
    let tight = Ask { at: Micros(20), budget: Span::from_millis(900), ..ONE };
    let fates = heard(&[crowd, vec![tight]].concat());
    let refused: Vec<&Fate> = fates.iter().filter(|it| it.refusal.is_some()).collect();
    assert!(!refused.is_empty() && fates.iter().all(|it| it.tier.is_none() || it.is_kept()));
    says(fates.last().expect("tight"), "are left: ");
}

#[test]
fn a_machine_that_is_slower_than_it_says_is_learnt() {
    let asks: Vec<Ask> = (0..60)
        .map(|at| Ask { at: Micros(at * 1_000_000), budget: Span::from_secs(2), ..ONE })
        .collect();
    let mut plant = Plant::new(Policy::Twin(Twin::CAPS)).slower(2.0);
    plant.run(&asks);
    let fates: Vec<Fate> = plant.fates.into_values().collect();
    let late = fates[20..].iter().filter(|it| it.tier == Some(Tier::Promised) && !it.is_kept());
    assert_eq!(late.count(), 0, "after twenty seconds everything is known");
    let view = plant.controller.view(Micros(0));
    let speed = view.engines[0].speed.as_ref().expect("watched");
    assert!(speed.steps > 500 && !speed.alarm, "{speed:?}");
}
