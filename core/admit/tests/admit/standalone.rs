//! Callers without an engine that anybody watches.

use admit::{Attempt, Candidate, How, Limits, Observation, Offer, Policy, Snapshot, Source};
use expect_test::expect;
use units::{Micros, Span, TokenCount};

use crate::world::{World, at_once, id, offer, sequence, settings, snapshot};

fn passing(name: char, state: Snapshot) -> Offer {
    let source = Source::Passed(Box::new(state));
    at_once(Offer {
        candidates: vec![Candidate { source, cached: TokenCount(0), answers: Vec::new() }],
        ..offer(name, 100, 50)
    })
}

fn seen(e2e_ms: u64) -> Observation {
    Observation {
        how: How::Completed,
        ttft: None,
        e2e: Span::from_millis(e2e_ms),
        completion: TokenCount(9),
    }
}

fn observe(world: &mut World, name: char, number: u32) -> bool {
    let attempt = Attempt { id: id(name), number };
    let known = world.controller.observe(world.now, attempt, seen(1_200));
    world.settle();
    known
}

#[test]
fn the_passed_state_decides_with_those_let_in_since() {
    let mut world = World::without_engine(Limits { requests: 3, ..Limits::default() });
    let busy = || Snapshot { sequences: vec![sequence('x', 9, 9)], ..snapshot("", Micros(0), 0) };
    "abc".chars().for_each(|name| drop(world.offer(passing(name, busy()))));
    let mut with_a = busy();
    with_a.sequences.push(sequence('a', 100, 50));
    world.offer(passing('d', with_a));
    world.heard(&expect![[r#"
        0 ms  a admitted, best effort, candidate 0, epoch 0
        0 ms  b admitted, best effort, candidate 0, epoch 0
        0 ms  c refused, later: no room for another request: 3 in the system or ahead, the limit is 3
        0 ms  d refused, later: no room for another request: 3 in the system or ahead, the limit is 3
    "#]]);
}

#[test]
fn an_observation_closes_the_entry_once() {
    let mut world = World::without_engine(Limits { requests: 1, ..Limits::default() });
    world.offer(passing('a', snapshot("other", Micros(0), 0)));
    assert!(!observe(&mut world, 'a', 1), "no such attempt");
    assert!(observe(&mut world, 'a', 0));
    assert!(!observe(&mut world, 'a', 0), "closed already");
    assert_eq!(world.controller.view(world.now).standalone, 0);
    world.closed(&expect![[r#"
        a#0 admitted (p 1) after 0 us, saw 0: Completed, ttft -, e2e 1200 ms, 9 tokens
    "#]]);
}

#[test]
fn an_observation_makes_room_for_who_waits() {
    let mut world = World::without_engine(Limits { requests: 1, ..Limits::default() });
    world.offer(passing('a', snapshot("", Micros(0), 0)));
    world.offer(Offer { patience: None, ..passing('b', snapshot("", Micros(0), 0)) });
    world.pass(100);
    observe(&mut world, 'a', 0);
    world.heard(&expect![[r#"
        0 ms  a admitted, best effort, candidate 0, epoch 0
        0 ms  b held
        100 ms  b admitted, best effort, candidate 0, epoch 0
    "#]]);
}

#[test]
fn who_never_reports_is_censored_after_twice_the_budget() {
    let mut world = World::without_engine(Limits::default());
    world.offer(passing('a', snapshot("", Micros(0), 0)));
    world.pass(119_999);
    assert_eq!(world.controller.view(world.now).standalone, 1);
    world.pass(1);
    assert_eq!(world.controller.view(world.now).standalone, 0);
    world.closed(&expect![[r#"
        a#0 admitted (p 1) after 0 us, saw 0: Unreported at 120 s, 0 tokens
    "#]]);
}

#[test]
fn open_entries_are_bounded_whatever_the_policy_lets_in() {
    let mut world = World::without_engine(Limits::default());
    let settings =
        admit::Settings { policy: Policy::Off, standalone_max: 2, ..settings(Limits::default()) };
    world.controller = admit::Controller::new(settings);
    for (name, instance) in [('a', "one"), ('b', "two"), ('c', "three")] {
        world.offer(passing(name, snapshot(instance, Micros(0), 0)));
    }
    world.heard(&expect![[r#"
        0 ms  a admitted, best effort, candidate 0, epoch 0
        0 ms  b admitted, best effort, candidate 0, epoch 0
        0 ms  c refused, later: too many outcomes were not reported: 2 are open, the limit is 2
    "#]]);
}
