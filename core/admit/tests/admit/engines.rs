//! Engines: they come, tell, hesitate, go and come back.

use std::sync::Arc;

use admit::{EngineId, Limits, Offer, Snapshot};
use expect_test::expect;
use units::{BlockCount, Micros};

use crate::world::{ENGINE, World, at_once, offer, sequence, snapshot};

#[test]
fn nobody_is_let_in_to_an_engine_that_is_not_there() {
    let mut world = World::without_engine(Limits::default());
    world.ask('a', 100, 50);
    world.heard(&expect![[r#"
        0 ms  a refused, later: none of the named engines is connected
    "#]]);
}

#[test]
fn what_an_engine_runs_already_counts() {
    let mut world = World::without_engine(Limits { requests: 2, ..Limits::default() });
    let sequences = vec![sequence('x', 100, 50), sequence('y', 100, 50)];
    let state = Snapshot { sequences, ..snapshot("e1", world.now, 7) };
    world.controller.attached(world.now, ENGINE, 4, &Arc::from("e1"), Some(state));
    world.ask('a', 100, 50);
    world.finish('x');
    world.heard(&expect![[r#"
        0 ms  a held
        0 ms  a admitted, best effort, candidate 0, epoch 4
    "#]]);
}

#[test]
fn a_lease_that_is_never_used_expires_and_is_counted() {
    let mut world = World::of_requests(1);
    world.ask('a', 100, 50);
    world.pass(4_800);
    world.ask('b', 100, 50);
    world.pass(1_000);
    world.heard(&expect![[r#"
        0 ms  a admitted, best effort, candidate 0, epoch 1
        4800 ms  b held
        5000 ms  a lease expired
        5000 ms  b admitted, best effort, candidate 0, epoch 1
    "#]]);
    world.closed(&expect![[r#"
        a#0 admitted (p 1) after 0 us, saw 0: Unsubmitted at 5000 ms, 0 tokens
    "#]]);
    assert_eq!(world.controller.view(world.now).counters.leases_expired, 1);
}

#[test]
fn a_running_request_stays_for_as_long_as_its_engine_runs_it() {
    let mut world = World::of_requests(1);
    world.ask('a', 100, 50);
    world.submit('a', 100, 50);
    world.pass(3_600_000);
    assert_eq!(world.in_system(), 1);
    assert_eq!(world.controller.next_deadline(), None);
}

#[test]
fn a_blip_shorter_than_the_patience_is_not_noticed() {
    let mut world = World::of_requests(1);
    world.controller.interrupted(ENGINE);
    world.ask('a', 100, 50);
    world.pass(300);
    world.controller.attached(world.now, ENGINE, 2, &Arc::from("e1"), None);
    world.settle();
    world.heard(&expect![[r#"
        0 ms  a held
        300 ms  a admitted, best effort, candidate 0, epoch 2
    "#]]);
}

#[test]
fn an_interruption_longer_than_the_patience_is_told() {
    let mut world = World::of_requests(1);
    world.controller.interrupted(ENGINE);
    world.ask('a', 100, 50);
    world.pass(1_000);
    world.heard(&expect![[r#"
        0 ms  a held
        500 ms  a refused, later: none of the named engines is connected
    "#]]);
}

#[test]
fn a_detached_engine_is_forgotten_with_its_leases() {
    let mut world = World::of_requests(2);
    world.ask('a', 100, 50);
    world.submit('a', 100, 50);
    world.ask('b', 100, 50);
    world.ask('c', 100, 50);
    world.controller.detached(world.now, ENGINE);
    world.settle();
    world.pass(0);
    world.heard(&expect![[r#"
        0 ms  a admitted, best effort, candidate 0, epoch 1
        0 ms  b admitted, best effort, candidate 0, epoch 1
        0 ms  c held
        0 ms  c refused, later: none of the named engines is connected
    "#]]);
    world.closed(&expect![[r#"
        a#0 admitted (p 1) after 0 us, saw 0: EngineLost at 0 us, 0 tokens
        b#0 admitted (p 1) after 0 us, saw 1: EngineLost at 0 us, 0 tokens
        c#0 refused for no_engine after 0 us, saw 0: refused
    "#]]);
    assert_eq!(world.controller.next_deadline(), None, "no timer outlives its lease");
    world.finish('a');
    assert!(world.controller.view(world.now).engines.is_empty());
}

#[test]
fn a_new_instance_knows_nothing_of_the_old_one() {
    let mut world = World::of_requests(1);
    world.ask('a', 100, 50);
    let state = snapshot("e2", world.now, 0);
    world.controller.attached(world.now, ENGINE, 1, &Arc::from("e2"), Some(state));
    world.settle();
    assert_eq!(world.in_system(), 0);
    world.ask('b', 100, 50);
    world.heard(&expect![[r#"
        0 ms  a admitted, best effort, candidate 0, epoch 1
        0 ms  b refused, later: none of the named engines is connected
    "#]]);
}

#[test]
fn after_a_gap_in_the_records_the_snapshot_is_the_truth() {
    let mut world = World::of_requests(9);
    "abc".chars().for_each(|name| drop(world.ask(name, 100, 50)));
    world.submit('a', 100, 50);
    // Missed: a has finished, b was submitted, somebody else too. c is on the way.
    let sequences = vec![sequence('b', 100, 50), sequence('z', 100, 50)];
    let state = Snapshot { sequences, ..snapshot("e1", world.now, 50) };
    world.controller.attached(world.now, ENGINE, 2, &Arc::from("e1"), Some(state));
    world.settle();
    let totals = world.controller.view(world.now).totals();
    assert_eq!((totals.requests, totals.leases), (3, 1));
    world.finish('b');
    world.closed(&expect![[r#"
        a#0 admitted (p 1) after 0 us, saw 0: Untold at 0 us, 0 tokens
        b#0 admitted (p 1) after 0 us, saw 1: Completed, ttft 100 ms, e2e 900 ms, 7 tokens
    "#]]);
}

#[test]
fn an_end_that_was_never_told_is_seen_in_the_next_snapshot() {
    let mut world = World::of_requests(9);
    world.ask('a', 100, 50);
    world.submit('a', 100, 50);
    let older = snapshot("e1", world.now, 0);
    world.snapshot(older);
    assert_eq!(world.in_system(), 1, "the snapshot was taken before the submission");
    let newer = snapshot("e1", world.now, world.records());
    world.snapshot(newer);
    assert_eq!(world.in_system(), 0);
}

#[test]
fn a_snapshot_ahead_of_the_records_doubles_nothing() {
    let mut world = World::of_requests(9);
    world.ask('a', 100, 50);
    let sequences = vec![sequence('a', 100, 50), sequence('z', 100, 50)];
    let ahead = Snapshot { sequences, ..snapshot("e1", world.now, 2) };
    world.snapshot(ahead);
    world.submit('a', 100, 50);
    world.submit('z', 100, 50);
    assert_eq!(world.in_system(), 2);
    world.finish('a');
    world.finish('z');
    assert_eq!(world.in_system(), 0);
}

#[test]
fn free_and_reclaimable_blocks_are_room() {
    let mut world = World::of_requests(9);
    let mut state = snapshot("e1", world.now, 0);
    state.sequences = vec![sequence('x', 100, 60)]; // Holds 9 blocks of the 10 it may come to hold.
    state.kv.held = BlockCount(226);
    state.kv.free = BlockCount(10);
    state.kv.reclaimable = BlockCount(20);
    world.snapshot(state);
    world.offer(at_once(offer('a', 300, 180)));
    world.offer(at_once(offer('b', 300, 160)));
    world.heard(&expect![[r#"
        0 ms  a refused, later: no room for 30 KV blocks: 29 can be had; 164 would fit
        0 ms  b admitted, best effort, candidate 0, epoch 1
    "#]]);
}

#[test]
fn a_draining_engine_takes_nobody() {
    let mut world = World::of_requests(9);
    let draining = Snapshot { draining: true, ..snapshot("e1", world.now, 0) };
    world.snapshot(draining);
    world.ask('a', 100, 50);
    world.heard(&expect![[r#"
        0 ms  a refused, later: the engine is draining
    "#]]);
}

#[test]
fn the_engine_with_the_shorter_backlog_gets_the_request() {
    let mut world = World::of_requests(9);
    let state = snapshot("e2", world.now, 0);
    world.controller.attached(world.now, EngineId(1), 7, &Arc::from("e2"), Some(state));
    let either = |name| {
        let mut either = offer(name, 100, 50);
        either.candidates.extend(Offer { ..offer(name, 1, 1) }.candidates);
        either.candidates[1].source = admit::Source::Watched("e2".into());
        either
    };
    "abcd".chars().for_each(|name| drop(world.offer(either(name))));
    world.controller.detached(world.now, EngineId(1));
    world.offer(either('e'));
    world.heard(&expect![[r#"
        0 ms  a admitted, best effort, candidate 0, epoch 1
        0 ms  b admitted, best effort, candidate 1, epoch 7
        0 ms  c admitted, best effort, candidate 0, epoch 1
        0 ms  d admitted, best effort, candidate 1, epoch 7
        0 ms  e admitted, best effort, candidate 0, epoch 1
    "#]]);
}

#[test]
fn news_from_engines_that_are_not_attached_is_ignored() {
    let mut world = World::without_engine(Limits::default());
    world.submit('a', 100, 50);
    world.finish('a');
    world.steps(3);
    world.snapshot(snapshot("e1", Micros(0), 3));
    world.controller.interrupted(ENGINE);
    world.controller.detached(world.now, ENGINE);
    world.settle();
    assert!(world.controller.view(world.now).engines.is_empty());
}
