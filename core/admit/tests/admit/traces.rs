//! What a trace tells: what was seen at the decision, and how far the request came.

use std::sync::Arc;

use admit::{
    Cut, Ended, Event, How, Limits, Offer, Outcome, Phase, Sequence, Snapshot, Submitted, Tier,
    Trace, Way, Why,
};
use units::{BlockCount, Micros, Span, TokenCount};

use crate::world::{ENGINE, World, at_once, id, offer, sequence, snapshot};

/// An engine with one sequence in decode, one in its prompt and one that waits.
fn busy(world: &mut World) {
    let prefill = Sequence {
        phase: Phase::Prefill,
        computed: TokenCount(30),
        tier: Tier::Promised,
        ..sequence('y', 100, 50)
    };
    let waiting =
        Sequence { phase: Phase::Waiting, computed: TokenCount(0), ..sequence('z', 80, 50) };
    let sequences = vec![sequence('x', 100, 50), prefill, waiting];
    let state = Snapshot { sequences, step: 41, ..snapshot("e1", world.now, 0) };
    world.controller.attached(world.now, ENGINE, 1, &Arc::from("e1"), Some(state));
}

fn only(world: &mut World) -> Trace {
    assert_eq!(world.traces.len(), 1, "{:#?}", world.traces);
    world.traces.remove(0)
}

#[test]
fn the_features_of_a_decision_are_those_of_its_moment() {
    let mut world = World::without_engine(Limits { requests: 3, ..Limits::default() });
    busy(&mut world);
    world.pass(20);
    let asked = Offer { unix: Micros(77), tenant: "t".into(), priority: 2, ..offer('a', 90, 50) };
    world.offer(at_once(asked));
    let Trace { offered_at, offered_unix, saw, .. } = only(&mut world);
    assert_eq!((offered_at, offered_unix), (Micros(20_000), Micros(77)));
    assert_eq!((&*saw.tenant, saw.priority, saw.candidates), ("t", 2, 1));
    assert_eq!((saw.patience, saw.in_system.requests), (Span::ZERO, 3));
    let seen = saw.engine.expect("there was an engine");
    assert_eq!((seen.running, seen.decoding, seen.waiting, seen.promised), (2, 1, 1, 1));
    assert_eq!((seen.prefill_left, seen.step, seen.age), (150, 41, Span::from_millis(20)));
    assert_eq!((seen.slots, seen.kv_total, seen.room), (4, 256, 256));
}

#[test]
fn a_trace_tells_every_stage_that_was_reached() {
    let mut world = World::of_requests(1);
    world.ask('a', 100, 50);
    world.pass(5);
    let blocks = BlockCount(0);
    let (prompt, max_tokens) = (TokenCount(100), TokenCount(50));
    let submitted = Submitted { prompt, max_tokens, tier: Tier::BestEffort, blocks };
    world.record(Event::Submitted(id('a'), submitted));
    world.pass(5);
    world.record(Event::Started(id('a'), TokenCount(16)));
    world.pass(10);
    world.record(Event::FirstToken(id('a')));
    let ended = Ended { how: How::Failed, completion: TokenCount(1), ttft: None, e2e: Span::ZERO };
    world.record(Event::Finished(id('a'), ended));
    let millis = |millis| Some(Span::from_millis(millis));
    let way = Way {
        submitted: millis(5),
        started: millis(10),
        first_token: millis(20),
        cached: Some(TokenCount(16)),
        ran_as: Some(Tier::BestEffort),
    };
    assert_eq!(only(&mut world).way, way);
}

#[test]
fn a_censored_trace_tells_how_far_it_had_come() {
    let mut world = World::of_requests(1);
    world.ask('a', 100, 50);
    world.submit('a', 100, 50);
    let running = Sequence { generated: TokenCount(7), ..sequence('a', 100, 50) };
    let state = Snapshot { sequences: vec![running], ..snapshot("e1", world.now, 1) };
    world.controller.snapshot(world.now, ENGINE, state);
    world.pass(30);
    world.controller.detached(world.now, ENGINE);
    world.settle();
    let Trace { way, outcome, .. } = only(&mut world);
    assert_eq!((way.submitted, way.started), (Some(Span::ZERO), None));
    let cut = Cut { why: Why::EngineLost, after: Span::from_millis(30), generated: TokenCount(7) };
    assert_eq!(outcome, Outcome::Censored(cut));
}

#[test]
fn who_left_before_the_verdict_leaves_no_engine_behind() {
    let mut world = World::without_engine(Limits { requests: 3, ..Limits::default() });
    busy(&mut world);
    world.ask('a', 90, 50);
    world.withdraw('a', 0);
    let trace = only(&mut world);
    assert_eq!((trace.verdict, trace.saw.engine, trace.way), (None, None, Way::default()));
    assert_eq!(trace.saw.patience, Span::from_millis(500));
}

#[test]
fn a_stop_closes_every_open_decision_and_no_other() {
    let mut world = World::of_requests(9);
    world.ask('a', 100, 50);
    world.ask('b', 100, 50);
    world.submit('b', 100, 50);
    world.submit('x', 100, 50); // Somebody else let it in.
    world.pass(40);
    world.controller.stop(world.now);
    world.settle();
    let cut = |trace: &Trace| match trace.outcome {
        Outcome::Censored(cut) => (cut.why, cut.after),
        Outcome::Refused | Outcome::Ended(_) => panic!("{trace:?}"),
    };
    let told: Vec<_> = world.traces.iter().map(cut).collect();
    assert_eq!(told, [(Why::Stopped, Span::from_millis(40)); 2]);
    assert_eq!(world.in_system(), 1, "what is not ours stays");
    world.controller.stop(world.now);
    assert_eq!(world.controller.drain_effects(), []);
}
