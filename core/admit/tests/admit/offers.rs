//! Callers: who gets in, who waits, who is told what.

use admit::{Budget, Candidate, Limits, Offer, Source, Verdict};
use expect_test::expect;
use units::{Span, TokenCount};

use crate::world::{World, at_once, offer};

#[test]
fn without_a_promise_the_caller_hears_best_effort() {
    let mut world = World::of_requests(2);
    let verdict = world.ask('a', 100, 50).expect("at once");
    let Verdict::Admitted(admitted) = verdict else { panic!("{verdict:?}") };
    assert_eq!((admitted.bound, admitted.confidence), (None, None));
    assert_eq!(admitted.budget, Budget { e2e: Some(Span::from_secs(60)), ttft: None });
    assert_eq!(admitted.lease, Span::from_secs(5));
    world.heard(&expect![[r#"
        0 ms  a admitted, best effort, candidate 0, epoch 1
    "#]]);
}

#[test]
fn who_does_not_fit_waits_and_gets_the_room_of_who_leaves() {
    let mut world = World::of_requests(1);
    world.ask('a', 100, 50);
    world.submit('a', 100, 50);
    world.ask('b', 100, 50);
    world.pass(200);
    world.finish('a');
    world.heard(&expect![[r#"
        0 ms  a admitted, best effort, candidate 0, epoch 1
        0 ms  b held
        200 ms  b admitted, best effort, candidate 0, epoch 1
    "#]]);
    world.closed(&expect![[r#"
        a#0 admitted (p 1) after 0 us, saw 0: Completed, ttft 100 ms, e2e 900 ms, 7 tokens
    "#]]);
}

#[test]
fn patience_ends_in_a_refusal() {
    let mut world = World::of_requests(1);
    world.ask('a', 100, 50);
    world.submit('a', 100, 50);
    world.ask('b', 100, 50);
    world.offer(at_once(offer('c', 100, 50)));
    world.pass(1_000);
    world.heard(&expect![[r#"
        0 ms  a admitted, best effort, candidate 0, epoch 1
        0 ms  b held
        0 ms  c refused, later: no room for another request: 2 in the system or ahead, the limit is 1
        500 ms  b refused, later: no room for another request: 1 in the system or ahead, the limit is 1
    "#]]);
    world.closed(&expect![[r#"
        c#0 refused for requests after 0 us, saw 1: refused
        b#0 refused for requests after 500 ms, saw 1: refused
    "#]]);
}

#[test]
fn nobody_is_held_past_the_budget() {
    let mut world = World::of_requests(1);
    world.ask('a', 100, 50);
    world.submit('a', 100, 50);
    let budget = Budget { e2e: Some(Span::from_millis(80)), ttft: None };
    world.offer(Offer { budget, ..offer('b', 100, 50) });
    let spent = Budget { e2e: Some(Span::ZERO), ttft: None };
    world.offer(Offer { budget: spent, ..offer('c', 100, 50) });
    world.pass(100);
    world.heard(&expect![[r#"
        0 ms  a admitted, best effort, candidate 0, epoch 1
        0 ms  b held
        0 ms  c refused, never: nothing is left of the time budget
        80 ms  b refused, later: no room for another request: 1 in the system or ahead, the limit is 1
    "#]]);
}

#[test]
fn the_time_spent_waiting_is_taken_off_the_budget() {
    let mut world = World::of_requests(1);
    world.ask('a', 100, 50);
    world.submit('a', 100, 50);
    world.ask('b', 100, 50);
    world.pass(300);
    let ended = admit::Ended {
        how: admit::How::Cancelled,
        completion: TokenCount(0),
        ttft: None,
        e2e: Span::ZERO,
    };
    let record =
        admit::Record { number: 9, event: admit::Event::Finished(crate::world::id('a'), ended) };
    world.controller.record(world.now, crate::world::ENGINE, record);
    let effects = world.controller.drain_effects();
    let admitted = effects.iter().find_map(|effect| match effect {
        admit::Effect::Verdict(_, Verdict::Admitted(admitted)) => Some(admitted),
        admit::Effect::Verdict(..) | admit::Effect::Closed(_) | admit::Effect::LeaseExpired(_) => {
            None
        }
    });
    let admitted = admitted.expect("b has its room");
    assert_eq!(admitted.held, Span::from_millis(300));
    assert_eq!(admitted.budget.e2e, Some(Span::from_millis(59_700)));
}

#[test]
fn the_urgent_come_first_then_the_earlier_deadline_then_the_earlier_arrival() {
    let mut world = World::of_requests(1);
    world.ask('a', 100, 50);
    world.submit('a', 100, 50);
    let soon = Budget { e2e: Some(Span::from_secs(4)), ttft: None };
    world.ask('b', 100, 50);
    world.ask('c', 100, 50);
    world.offer(Offer { budget: soon, ..offer('d', 100, 50) });
    world.offer(Offer { priority: 1, ..offer('e', 100, 50) });
    for name in ['a', 'e', 'd', 'b', 'c'] {
        world.submit(name, 100, 50);
        world.finish(name);
    }
    world.heard(&expect![[r#"
        0 ms  a admitted, best effort, candidate 0, epoch 1
        0 ms  b held
        0 ms  c held
        0 ms  d held
        0 ms  e held
        0 ms  e admitted, best effort, candidate 0, epoch 1
        0 ms  d admitted, best effort, candidate 0, epoch 1
        0 ms  b admitted, best effort, candidate 0, epoch 1
        0 ms  c admitted, best effort, candidate 0, epoch 1
    "#]]);
}

#[test]
fn a_large_request_is_not_starved_by_small_ones_that_would_fit() {
    let mut world = World::new(Limits { tokens: 1_000, ..Limits::default() });
    world.ask('a', 400, 100);
    world.ask('b', 300, 100);
    world.submit('a', 400, 100);
    world.submit('b', 300, 100);
    world.ask('L', 500, 100);
    world.pass(100);
    world.offer(at_once(offer('s', 50, 40)));
    world.ask('t', 50, 40);
    world.finish('a');
    world.heard(&expect![[r#"
        0 ms  a admitted, best effort, candidate 0, epoch 1
        0 ms  b admitted, best effort, candidate 0, epoch 1
        0 ms  L held
        100 ms  s refused, later: no room for 90 tokens: 1500 in the system or ahead, the limit is 1000
        100 ms  t held
        100 ms  L admitted, best effort, candidate 0, epoch 1
    "#]]);
    world.pass(400);
    world.heard(&expect![""]);
    world.pass(100);
    world.heard(&expect![[r#"
        600 ms  t refused, later: no room for 90 tokens: 1000 in the system or ahead, the limit is 1000
    "#]]);
}

#[test]
fn the_queue_is_bounded() {
    let mut world = World::of_requests(1);
    world.ask('a', 100, 50);
    "bcdefg".chars().for_each(|name| drop(world.ask(name, 100, 50)));
    world.heard(&expect![[r#"
        0 ms  a admitted, best effort, candidate 0, epoch 1
        0 ms  b held
        0 ms  c held
        0 ms  d held
        0 ms  e held
        0 ms  f refused, later: no room for another request: 5 in the system or ahead, the limit is 1
        0 ms  g refused, later: no room for another request: 5 in the system or ahead, the limit is 1
    "#]]);
}

#[test]
fn refusals_name_the_bound_and_what_would_fit() {
    let limits = Limits { tokens: 1_000, blocks: 50, requests: 9 };
    let mut world = World::new(limits);
    world.ask('a', 300, 100);
    world.offer(at_once(offer('t', 500, 200)));
    world.offer(at_once(offer('k', 300, 150)));
    world.offer(at_once(offer('p', 700, 10)));
    world.heard(&expect![[r#"
        0 ms  a admitted, best effort, candidate 0, epoch 1
        0 ms  t refused, later: no room for 700 tokens: 400 in the system or ahead, the limit is 1000
        0 ms  k refused, later: no room for 29 KV blocks: 25 can be had; 100 would fit
        0 ms  p refused, later: no room for 710 tokens: 400 in the system or ahead, the limit is 1000
    "#]]);
}

#[test]
fn cached_tokens_need_no_blocks() {
    let mut world = World::new(Limits { blocks: 40, ..Limits::default() });
    world.ask('a', 480, 16);
    let cached = |name, cached| {
        let source = Source::Watched("e1".into());
        let candidates =
            vec![Candidate { source, cached: TokenCount(cached), answers: Vec::new() }];
        at_once(Offer { candidates, ..offer(name, 480, 16) })
    };
    world.offer(cached('b', 0));
    world.offer(cached('c', 352));
    world.heard(&expect![[r#"
        0 ms  a admitted, best effort, candidate 0, epoch 1
        0 ms  b refused, later: no room for 31 KV blocks: 9 can be had
        0 ms  c admitted, best effort, candidate 0, epoch 1
    "#]]);
}

#[test]
fn what_can_never_fit_is_refused_for_ever_with_what_would() {
    let mut world = World::of_requests(1);
    world.ask('a', 600, 401);
    world.ask('b', 1_000, 1);
    world.ask('c', u32::MAX, u32::MAX);
    world.heard(&expect![[r#"
        0 ms  a refused, never: 1001 tokens are needed, the context holds 1000; 400 would fit
        0 ms  b refused, never: 1001 tokens are needed, the context holds 1000
        0 ms  c refused, never: 8589934590 tokens are needed, the context holds 1000
    "#]]);
}

#[test]
fn an_idle_engine_lets_one_in_whatever_the_bounds_are() {
    let mut world = World::new(Limits { requests: 1, tokens: 1, blocks: 1 });
    world.ask('a', 600, 400);
    world.offer(at_once(offer('b', 1, 1)));
    world.submit('a', 600, 400);
    world.finish('a');
    world.pass(120_000);
    world.ask('c', 600, 400);
    world.heard(&expect![[r#"
        0 ms  a admitted, best effort, candidate 0, epoch 1
        0 ms  b refused, later: no room for another request: 1 in the system or ahead, the limit is 1
        120000 ms  c admitted, best effort, candidate 0, epoch 1
    "#]]);
}

#[test]
fn a_caller_who_leaves_gives_back_what_it_has() {
    let mut world = World::of_requests(1);
    world.ask('a', 100, 50);
    world.ask('b', 100, 50);
    world.ask('c', 100, 50);
    world.withdraw('b', 0);
    world.pass(100);
    world.withdraw('a', 0);
    world.heard(&expect![[r#"
        0 ms  a admitted, best effort, candidate 0, epoch 1
        0 ms  b held
        0 ms  c held
        100 ms  c admitted, best effort, candidate 0, epoch 1
    "#]]);
    world.closed(&expect![[r#"
        b#0 unanswered after 0 us, saw 0: Cancelled, ttft -, e2e 0 us, 0 tokens
        a#0 admitted (p 1) after 0 us, saw 0: Cancelled, ttft -, e2e 100 ms, 0 tokens
    "#]]);
    world.submit('c', 100, 50);
    world.withdraw('c', 0);
    assert_eq!(world.in_system(), 1, "what runs, its engine ends");
}

#[test]
fn a_retry_takes_the_place_of_the_older_attempt() {
    let retry = |name, number| {
        let mut retry = offer(name, 100, 50);
        retry.attempt.number = number;
        retry
    };
    let mut world = World::of_requests(1);
    world.ask('a', 100, 50);
    world.ask('b', 100, 50);
    world.offer(retry('b', 1));
    world.offer(retry('a', 1));
    world.heard(&expect![[r#"
        0 ms  a admitted, best effort, candidate 0, epoch 1
        0 ms  b held
        0 ms  b#1 held
        0 ms  b superseded by attempt 1
        0 ms  a#1 held
        0 ms  b#1 admitted, best effort, candidate 0, epoch 1
    "#]]);
    world.withdraw('b', 0);
    assert_eq!(world.in_system(), 1, "the older attempt speaks for nobody");
    world.ask('b', 100, 50);
    world.offer(retry('b', 1));
    world.heard(&expect![[r#"
        0 ms  b superseded by attempt 1
        0 ms  b#1 superseded by attempt 1
    "#]]);
}

#[test]
fn a_retry_of_a_running_request_is_counted_once() {
    let mut world = World::of_requests(2);
    world.ask('a', 100, 50);
    world.submit('a', 100, 50);
    let mut retry = offer('a', 100, 50);
    retry.attempt.number = 1;
    world.offer(retry);
    assert_eq!(world.in_system(), 1);
    world.finish('a'); // The first attempt, cancelled by then.
    assert_eq!(world.in_system(), 1, "the second is still to come");
    world.submit('a', 100, 50);
    world.finish('a');
    assert_eq!(world.in_system(), 0);
}

#[test]
fn two_gateways_share_one_limit() {
    let mut world = World::of_requests(4);
    for (left, right) in [('a', 'A'), ('b', 'B'), ('c', 'C'), ('d', 'D')] {
        if let Some(Verdict::Admitted(_)) = world.offer(at_once(offer(left, 100, 50))) {
            world.submit(left, 100, 50);
        }
        world.offer(at_once(offer(right, 100, 50)));
    }
    let view = world.controller.view(world.now);
    assert_eq!((view.totals().requests, view.counters.admitted, view.counters.refused), (4, 4, 4));
}

#[test]
fn draining_answers_everybody() {
    let mut world = World::of_requests(1);
    world.ask('a', 100, 50);
    world.ask('b', 100, 50);
    world.controller.drain(world.now);
    world.ask('c', 100, 50);
    world.pass(0);
    world.heard(&expect![[r#"
        0 ms  a admitted, best effort, candidate 0, epoch 1
        0 ms  b held
        0 ms  c refused, later: admission is draining
        0 ms  b refused, later: admission is draining
    "#]]);
}

#[test]
fn retry_after_is_the_time_until_enough_has_drained() {
    let mut world = World::of_requests(2);
    for name in ['a', 'b'] {
        world.ask(name, 100, 300);
        world.submit(name, 100, 300);
    }
    world.steps(50); // 200 tokens a second, and 400 of the 800 done.
    let Some(Verdict::Refused(refused)) = world.offer(at_once(offer('c', 100, 50))) else {
        panic!("there is no room");
    };
    // Both finish together, after the 800 tokens they may use, of which the steps have done half.
    let (least, most) = (Span::from_secs(2), Span::from_millis(2_500));
    assert!((least..=most).contains(&refused.retry_after), "{}", refused.retry_after);
}
