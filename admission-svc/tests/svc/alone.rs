//! Callers without an engine, and what every caller can count on.

use proto::v1::{self, RefusalReason, Tier, trace_row::Outcome};
use tonic::Code;

use crate::{
    engine::snapshot,
    stack::{Stack, admitted, ask, at_once, id, refused},
};

fn passing(number: u32) -> v1::DecideRequest {
    let candidate = v1::Candidate { snapshot: Some(snapshot("other")), ..Default::default() };
    v1::DecideRequest { candidates: vec![candidate], ..at_once(ask(number)) }
}

#[actix::test]
async fn a_passed_snapshot_is_enough_for_a_decision() {
    let stack = Stack::start(&["--engine", "", "--limit-requests", "1"]).await;
    let go = admitted(stack.decide(passing(1)).await);
    assert_eq!((go.tier(), go.epoch, go.bound_us), (Tier::BestEffort, 0, None));
    let no = refused(stack.decide(passing(2)).await);
    assert_eq!(no.reason(), RefusalReason::Requests);
    assert_eq!(no.message, "no room for another request: 1 in the system or ahead, the limit is 1");
    assert!((1_000_000..=59_000_000).contains(&no.retry_after_us), "{}", no.retry_after_us);

    let seen = v1::ObserveRequest {
        request_id: id(1),
        completed: true,
        e2e_us: 1_234,
        completion_tokens: 9,
        ..Default::default()
    };
    let mut client = stack.client.clone();
    assert!(client.observe(seen.clone()).await.expect("known").into_inner().known);
    assert!(!client.observe(seen).await.expect("closed").into_inner().known);
    admitted(stack.decide(passing(3)).await);

    let rows = stack.traces(0).await;
    let outcomes: Vec<_> = rows.iter().map(|row| (row.number, row.outcome())).collect();
    assert_eq!(outcomes, [(1, Outcome::Refused), (2, Outcome::Completed)]);
    assert_eq!((rows[1].e2e_us, rows[1].propensity), (Some(1_234), 1.0));
    assert_eq!(stack.traces(1).await.len(), 1);
}

#[actix::test]
async fn rows_are_exported_across_chunks() {
    let stack = Stack::alone().await;
    for number in 0..600 {
        refused(stack.decide(at_once(ask(number))).await);
    }
    let numbers: Vec<_> = stack.traces(7).await.iter().map(|row| row.number).collect();
    assert_eq!(numbers, (8..=600).collect::<Vec<_>>());
}

#[actix::test]
async fn an_export_ends_with_what_was_there_when_it_began() {
    let stack = Stack::start(&["--engine", "", "--limit-requests", "3"]).await;
    for number in 0..1_500 {
        refused(stack.decide(at_once(ask(number))).await);
    }
    let request = v1::ExportTracesRequest { after: 0 };
    let mut rows = stack.client.clone().export_traces(request).await.expect("rows").into_inner();
    let mut last = rows.message().await.expect("a row").expect("a row");
    assert!(last.policy_parameters.starts_with("limit_requests=3 "), "{last:?}");
    for number in 1_500..1_510 {
        refused(stack.decide(at_once(ask(number))).await);
    }
    while let Some(row) = rows.message().await.expect("a row") {
        last = row;
    }
    assert_eq!(last.number, 1_500);
}

#[actix::test]
async fn without_an_engine_and_a_snapshot_there_is_no_engine() {
    let stack = Stack::alone().await;
    let no = refused(stack.decide(ask(1)).await);
    assert_eq!((no.reason(), no.permanent), (RefusalReason::NoEngine, false));
}

#[actix::test]
async fn mistakes_are_named_and_do_no_harm() {
    let stack = Stack::alone().await;
    let status = stack.decide(v1::DecideRequest::default()).await.expect_err("a mistake");
    assert_eq!(status.code(), Code::InvalidArgument);
    assert_eq!(status.message(), "request_id: a request id is 32 hexadecimal digits");
    let status = stack
        .client
        .clone()
        .observe(v1::ObserveRequest { request_id: "x".into(), ..Default::default() })
        .await
        .expect_err("a mistake");
    assert_eq!(status.code(), Code::InvalidArgument);
    assert_eq!(stack.policy().await.counters.expect("counters").refused, 0);
}

#[actix::test]
async fn absurd_budgets_are_cut() {
    let stack = Stack::alone().await;
    let huge = v1::Budget { e2e_us: Some(u64::MAX), ttft_us: Some(u64::MAX) };
    let go = admitted(stack.decide(v1::DecideRequest { budget: Some(huge), ..passing(1) }).await);
    let hour = Some(3_600_000_000);
    assert_eq!(go.budget, Some(v1::Budget { e2e_us: hour, ttft_us: hour }));
    let none = v1::Budget { e2e_us: Some(0), ttft_us: None };
    let no = refused(stack.decide(v1::DecideRequest { budget: Some(none), ..passing(2) }).await);
    assert_eq!((no.reason(), no.permanent), (RefusalReason::Slo, true));
}

#[actix::test]
async fn the_same_attempt_twice_is_told_apart_from_an_older_one() {
    let stack = Stack::alone().await;
    let attempt = |attempt| v1::DecideRequest { attempt, ..passing(1) };
    admitted(stack.decide(attempt(1)).await);
    let again = stack.decide(attempt(1)).await.expect_err("sent twice");
    let late = stack.decide(attempt(0)).await.expect_err("late");
    assert_eq!((again.code(), late.code()), (Code::AlreadyExists, Code::Aborted));
    admitted(stack.decide(attempt(2)).await);
    assert_eq!(stack.policy().await.standalone, 1);
}

#[actix::test]
async fn the_policy_says_what_is_in_force() {
    let stack = Stack::start(&["--engine", "", "--limit-requests", "3"]).await;
    let policy = stack.policy().await;
    assert_eq!(policy.policy, "limit");
    assert_eq!(policy.parameters["limit_requests"], "3");
    assert_eq!(policy.parameters["patience_ms"], "500");
}
