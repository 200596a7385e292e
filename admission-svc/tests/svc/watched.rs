//! Decisions about a watched engine, whatever happens to it.

use std::time::Duration;

use proto::v1::{self, RefusalReason, trace_row::Outcome, watch_event, watch_request};
use tonic::Status;

use crate::{
    engine::{FakeEngine, Session, snapshot},
    stack::{SOON, Stack, admitted, ask, at_once, id, refused},
};

/// A service with a limit of one request, and the engine it watches.
async fn pair() -> (Stack, FakeEngine, Session) {
    let mut engine = FakeEngine::start();
    let address = engine.address.to_string();
    let stack = Stack::start(&["--engine", &address, "--limit-requests", "1"]).await;
    let session = engine.attach(5).await;
    stack.attached().await;
    (stack, engine, session)
}

fn requests(policy: &v1::PolicyResponse) -> u32 {
    policy.engines[0].requests
}

#[actix::test]
async fn the_life_of_a_request() {
    let (stack, _engine, mut session) = pair().await;
    assert_eq!(session.hello.role(), v1::hello::Role::Promiser);
    assert_eq!(session.hello.resume_after_record, None);
    let go = admitted(stack.decide(ask(1)).await);
    assert_eq!((go.epoch, go.lease_us), (5, 1_500_000));
    assert_eq!(stack.policy().await.leases, 1);
    session.submitted(&id(1)).await;
    stack.until(|policy| policy.leases == 0 && requests(policy) == 1).await;
    session.finished(&id(1)).await;
    let policy = stack.until(|policy| requests(policy) == 0).await;
    assert_eq!((policy.engines[0].tokens, policy.engines[0].kv_blocks), (0, 0));
    let rows = stack.traces(0).await;
    assert_eq!(rows.len(), 1);
    assert_eq!((rows[0].outcome(), rows[0].completion_tokens), (Outcome::Completed, 9));
    assert_eq!(rows[0].engine_instance, "e1");
}

#[actix::test]
async fn a_held_request_gets_the_room_of_one_that_finishes() {
    let (stack, _engine, mut session) = pair().await;
    admitted(stack.decide(ask(1)).await);
    session.submitted(&id(1)).await;
    let patient = v1::DecideRequest { patience_us: Some(20_000_000), ..ask(2) };
    let waiting = stack.deciding(patient);
    stack.until(|policy| policy.held == 1).await;
    session.finished(&id(1)).await;
    let answer = tokio::time::timeout(SOON, waiting).await.expect("soon").expect("no panic");
    admitted(answer);
}

#[actix::test]
async fn patience_ends_with_the_truth() {
    let (stack, _engine, _session) = pair().await;
    admitted(stack.decide(ask(1)).await);
    let no = refused(stack.decide(v1::DecideRequest { patience_us: Some(50_000), ..ask(2) }).await);
    assert_eq!((no.reason(), no.permanent), (RefusalReason::Requests, false));
}

#[actix::test]
async fn a_caller_who_leaves_is_forgotten() {
    let (stack, _engine, _session) = pair().await;
    admitted(stack.decide(ask(1)).await);
    let patient = |number| v1::DecideRequest { patience_us: Some(20_000_000), ..ask(number) };
    let waiting: Vec<_> = (2..50).map(|number| stack.deciding(patient(number))).collect();
    stack.until(|policy| policy.held == 48).await;
    waiting.iter().for_each(tokio::task::JoinHandle::abort);
    let policy = stack.until(|policy| policy.held == 0).await;
    assert_eq!(requests(&policy), 1, "who was let in stays");
}

#[actix::test]
async fn a_broken_stream_is_resumed_where_it_stopped() {
    let (stack, mut engine, mut session) = pair().await;
    admitted(stack.decide(ask(1)).await);
    session.submitted(&id(1)).await;
    stack.until(|policy| policy.leases == 0).await;
    drop(session);
    let mut session = engine.session().await;
    assert_eq!(session.hello.resume_after_record, Some(1));
    assert_eq!(session.hello.resume_engine_instance, "e1");
    assert_eq!(requests(&stack.policy().await), 1, "nothing is forgotten yet");
    session.continue_after(1);
    session.grant(6, "e1", true).await;
    session.finished(&id(1)).await;
    stack.until(|policy| requests(policy) == 0 && policy.engines[0].epoch == 6).await;
    assert_eq!(stack.traces(0).await[0].outcome(), Outcome::Completed);
}

#[actix::test]
async fn an_engine_that_starts_anew_has_forgotten_everything() {
    let (stack, mut engine, session) = pair().await;
    admitted(stack.decide(ask(1)).await);
    drop(session);
    let session = engine.session().await;
    session.grant(1, "e2", false).await;
    session.snapshot(snapshot("e2")).await;
    stack.until(|policy| policy.engines[0].engine_instance == "e2").await;
    let policy = stack.policy().await;
    assert_eq!((requests(&policy), policy.leases), (0, 0));
    assert_eq!(refused(stack.decide(at_once(ask(2))).await).reason(), RefusalReason::NoEngine);
}

#[actix::test]
async fn a_gap_in_the_records_is_mended_by_a_snapshot() {
    let (stack, mut engine, mut session) = pair().await;
    session.continue_after(6);
    session.submitted(&id(1)).await;
    let session = engine.session().await;
    assert_eq!(session.hello.resume_after_record, None, "what was read is not trusted");
    let problem = stack.policy().await.engines[0].problem.clone();
    assert_eq!(problem, "record 7 came after 0");
    session.grant(6, "e1", false).await;
    session.snapshot(v1::EngineSnapshot { record: 7, ..snapshot("e1") }).await;
    let policy = stack.until(|policy| policy.engines[0].epoch == 6).await;
    assert_eq!(policy.engines[0].problem, "");
}

#[actix::test]
async fn another_promiser_makes_this_one_stand_by_until_it_is_gone() {
    let mut engine = FakeEngine::start();
    let stack = Stack::start(&["--engine", &engine.address.to_string()]).await;
    for _ in 0..2 {
        let session = engine.session().await;
        session.fail(Status::failed_precondition("epoch 4 is held by admission-1")).await;
    }
    let policy = stack.until(|policy| policy.engines[0].problem.starts_with("standing by")).await;
    assert!(policy.engines[0].problem.ends_with("epoch 4 is held by admission-1"));
    assert_eq!(refused(stack.decide(ask(1)).await).reason(), RefusalReason::NoEngine);
    let _session = engine.attach(5).await;
    stack.attached().await;
    admitted(stack.decide(ask(2)).await);
}

#[actix::test]
async fn garbage_from_an_engine_ends_the_session_and_nothing_else() {
    let mut engine = FakeEngine::start();
    let stack = Stack::start(&["--engine", &engine.address.to_string()]).await;
    let garbage: [(watch_event::Event, &str); 4] = [
        (watch_event::Event::Granted(v1::Granted::default()), "engine_instance: is empty"),
        (watch_event::Event::Record(v1::Record::default()), "event: is missing"),
        (watch_event::Event::Snapshot(v1::EngineSnapshot::default()), "limits: are missing"),
        (watch_event::Event::Snapshot(snapshot("e1")), "a message came out of turn"),
    ];
    for (event, problem) in garbage {
        let session = engine.session().await;
        session.send(event).await;
        stack.until(|policy| policy.engines[0].problem.contains(problem)).await;
    }
    let _session = engine.attach(5).await;
    stack.attached().await;
}

#[actix::test]
async fn an_engine_that_falls_silent_is_forgotten() {
    let (stack, engine, mut session) = pair().await;
    admitted(stack.decide(ask(1)).await);
    let mut pings = 0;
    while let Some(message) = session.next().await {
        assert!(matches!(message, watch_request::Message::Ping(_)), "{message:?}");
        pings += 1;
    }
    assert!((3..=5).contains(&pings), "{pings} pings in the three seconds");
    drop(engine);
    let policy = stack.until(|policy| policy.leases == 0 && requests(policy) == 0).await;
    assert!(!policy.engines[0].problem.is_empty());
    assert_eq!(refused(stack.decide(ask(2)).await).reason(), RefusalReason::NoEngine);
    assert_eq!(stack.traces(0).await[0].outcome(), Outcome::Censored);
}

#[actix::test]
async fn two_gateways_keep_the_limit_in_sum() {
    let mut engine = FakeEngine::start();
    let address = engine.address.to_string();
    let stack = Stack::start(&["--engine", &address, "--limit-requests", "5"]).await;
    let _session = engine.attach(5).await;
    stack.attached().await;
    let calls: Vec<_> = (0..40).map(|number| stack.deciding(at_once(ask(number)))).collect();
    for call in calls {
        call.await.expect("no panic").expect("a verdict");
    }
    let counters = stack.policy().await.counters.expect("counters");
    assert_eq!((counters.admitted, counters.refused), (5, 35));
}

#[actix::test]
async fn an_unused_lease_expires() {
    let mut engine = FakeEngine::start();
    let address = engine.address.to_string();
    let stack = Stack::start(&["--engine", &address, "--lease-ms", "100"]).await;
    let _session = engine.attach(5).await;
    stack.attached().await;
    admitted(stack.decide(ask(1)).await);
    let policy = stack.until(|policy| policy.leases == 0).await;
    assert_eq!(policy.counters.expect("counters").leases_expired, 1);
    assert_eq!(requests(&policy), 0);
}

#[actix::test]
async fn stopping_answers_everybody_and_ends() {
    let (mut stack, _engine, _session) = pair().await;
    admitted(stack.decide(ask(1)).await);
    let patient = v1::DecideRequest { patience_us: Some(20_000_000), ..ask(2) };
    let waiting = stack.deciding(patient);
    stack.until(|policy| policy.held == 1).await;
    stack.stop();
    let answer = tokio::time::timeout(SOON, waiting).await.expect("soon").expect("no panic");
    assert_eq!(refused(answer).reason(), RefusalReason::Draining);
    let end = tokio::time::timeout(Duration::from_secs(5), stack.ended()).await;
    end.expect("it does not wait for idle connections");
}
