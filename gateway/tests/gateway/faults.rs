//! Upstreams that die or hang under a request.

use std::time::{Duration, Instant};

use proto::v1::{RefusalReason, Refused, Tier};
use tonic::Status;

use crate::support::{
    Connection, FakeAdmission, Preparing, Stack, Step, Verdict, answer, chat, post, request,
};

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_dies_mid_stream_is_told_in_band() {
    let stack = Stack::start().await;
    stack.engine.will(vec![Step::Accept(Tier::Promised), Step::Token("x"), Step::Hang]);
    let mut connection = Connection::open(stack.address).await;
    connection.send(chat("\"stream\":true")).await;
    connection.head().await;
    let mut text = String::new();
    while let Some(chunk) = connection.chunk().await {
        text += std::str::from_utf8(&chunk).expect("UTF-8");
        if text.contains(r#"{"content":"x"}"#) {
            stack.engine.kill();
        }
    }
    assert!(text.contains(r#""code":"engine_lost""#), "{text}");
    assert!(!text.contains("[DONE]"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_dies_before_the_first_byte_is_503() {
    let stack = Stack::start().await;
    stack.engine.prepares(Preparing::Hang);
    let mut connection = Connection::open(stack.address).await;
    connection.send(chat("")).await;
    stack.engine.saw_prepare().await;
    stack.engine.kill();
    let response = connection.read(false).await;
    assert_eq!(response.status, 503);
    assert_eq!(response.error().2.as_deref(), Some("engine_unavailable"));
    assert!(response.header("retry-after").is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn time_that_runs_out_before_the_first_byte_is_504() {
    let stack = Stack::with(&["--engine-timeout-ms", "100"]).await;
    stack.engine.prepares(Preparing::Hang);
    let response = post(stack.address, chat("")).await;
    assert_eq!(response.status, 504);
    assert_eq!(response.error().2.as_deref(), Some("engine_timeout"));
    let body = r#"{"messages":[{"role":"user","content":"hi"}]}"#;
    let hurried = request("/v1/chat/completions", "x-slo-e2e-ms: 20\r\n", body);
    let response = post(stack.address, &hurried).await;
    assert_eq!(response.status, 504);
    assert_eq!(response.error().2.as_deref(), Some("deadline_exceeded"));
    stack.engine.prepares(Preparing::Tokens(10));
    stack.engine.will(vec![Step::Hang]);
    let response = post(stack.address, chat("\"stream\":true")).await;
    assert_eq!(response.status, 504);
}

/// The thread that makes the tokens hangs, and everything else of the engine goes on talking.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_ends_when_its_engine_makes_no_progress() {
    let stack = Stack::start().await;
    stack.engine.will(vec![Step::Accept(Tier::Promised), Step::Token("x"), Step::Hang]);
    let mut stream = Connection::open(stack.address).await;
    stream.send(chat("\"stream\":true")).await;
    assert_eq!(stream.head().await.0, 200);
    let mut whole = Connection::open(stack.address).await;
    whole.send(chat("")).await;
    for _ in 0..2 {
        stack.engine.saw_prepare().await;
        stack.engine.saw_generate().await;
    }
    stack.engine.says(|info| info.stuck = true);
    let mut text = String::new();
    while let Some(chunk) = stream.chunk().await {
        text += std::str::from_utf8(&chunk).expect("UTF-8");
    }
    assert!(text.contains(r#"{"content":"x"}"#), "{text}");
    assert!(text.contains(r#""code":"engine_unavailable""#) && !text.contains("[DONE]"), "{text}");
    let response = whole.read(false).await;
    assert_eq!(response.status, 503);
    assert_eq!(response.error().2.as_deref(), Some("engine_unavailable"));
    assert!(response.header("retry-after").is_some());
    stack.engine.saw_drop().await;
    stack.engine.saw_drop().await;
}

/// Nobody is cut off because one look at the engine took too long, or one call failed.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_survives_a_slow_moment_of_its_engine() {
    let stack = Stack::start().await;
    let steps = vec![Step::Accept(Tier::Promised), Step::Token("x"), Step::Hang];
    stack.engine.will_in_turn(vec![steps, vec![Step::Fail(Status::unavailable("no"))]]);
    let mut stream = Connection::open(stack.address).await;
    stream.send(chat("\"stream\":true")).await;
    assert_eq!(stream.head().await.0, 200);
    while !stream.chunk().await.is_some_and(|it| String::from_utf8_lossy(&it).contains("\"x\"")) {}
    stack.engine.hangs_on_info(true);
    stack.wait_until(|body| body.contains(r#""state":"down""#)).await;
    stack.engine.hangs_on_info(false);
    stack.wait_until(|body| body.contains(r#""status":"ready""#)).await;
    assert_eq!(post(stack.address, chat("")).await.status, 503);
    stack.engine.is_known().await;
    let more = tokio::time::timeout(Duration::from_millis(300), stream.chunk()).await;
    assert!(more.is_err(), "{more:?}");
}

/// Starts as many requests as the local cap lets run, and holds them.
async fn fill(stack: &Stack, count: usize) -> Vec<Connection> {
    stack.engine.will(vec![Step::Accept(Tier::BestEffort), Step::Hang]);
    let mut held = Vec::new();
    for _ in 0..count {
        let mut connection = Connection::open(stack.address).await;
        connection.send(chat("\"stream\":true")).await;
        let (status, headers) = connection.head().await;
        assert_eq!(status, 200);
        assert!(headers.contains(&("x-slo-tier".into(), "best-effort".into())));
        stack.engine.saw_prepare().await;
        assert_eq!(stack.engine.saw_generate().await.admitted_as, None);
        held.push(connection);
    }
    held
}

#[tokio::test(flavor = "multi_thread")]
async fn without_admission_a_few_run_as_best_effort() {
    let stack = Stack::with(&["--fallback-requests-max", "2"]).await;
    stack.admission.kill();
    let held = fill(&stack, 2).await;
    let response = post(stack.address, chat("")).await;
    assert_eq!(response.status, 503);
    assert_eq!(response.error().2.as_deref(), Some("admission_unavailable"));
    assert!(response.header("retry-after").is_some());
    stack.engine.saw_prepare().await;
    drop(held);
    stack.engine.saw_drop().await;
    stack.engine.saw_drop().await;
    // The places come back.
    drop(fill(&stack, 2).await);
}

/// The first choice would get a place and the second none, whenever it comes back.
#[tokio::test(flavor = "multi_thread")]
async fn without_admission_more_choices_than_places_do_not_come_back() {
    let stack = Stack::with(&["--fallback-requests-max", "2"]).await;
    stack.admission.kill();
    let response = post(stack.address, chat("\"n\":3")).await;
    assert_eq!(response.status, 503);
    assert_eq!(response.error().2.as_deref(), Some("admission_unavailable"));
    assert_eq!(response.header("x-should-retry"), Some("false"));
    stack.engine.saw_prepare().await;
    assert_eq!(post(stack.address, chat("\"n\":2")).await.status, 200);
    stack.engine.saw_prepare().await;
    for _ in 0..2 {
        stack.engine.saw_generate().await;
    }
    let held = fill(&stack, 1).await;
    let response = post(stack.address, chat("\"n\":2")).await;
    assert_eq!((response.status, response.header("x-should-retry")), (503, None));
    drop(held);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_admission_a_request_expires_all_the_same() {
    let stack = Stack::with(&["--fallback-budget-ms", "5000"]).await;
    stack.admission.kill();
    assert_eq!(post(stack.address, chat("")).await.status, 200);
    stack.engine.saw_prepare().await;
    let budget = stack.engine.saw_generate().await.budget.expect("a budget");
    assert!(budget.e2e_us.is_some_and(|left| (1..=5_000_000).contains(&left)), "{budget:?}");
    let body = r#"{"messages":[{"role":"user","content":"hi"}]}"#;
    let own = request("/v1/chat/completions", "x-slo-e2e-ms: 9000\r\n", body);
    assert_eq!(post(stack.address, own).await.status, 200);
    stack.engine.saw_prepare().await;
    let budget = stack.engine.saw_generate().await.budget.expect("a budget");
    assert!(budget.e2e_us.is_some_and(|left| left > 5_000_000), "{budget:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_admission_service_that_watches_no_engine_is_as_good_as_none() {
    let stack = Stack::with(&["--fallback-requests-max", "1"]).await;
    let blind = Refused { reason: RefusalReason::NoEngine.into(), ..Refused::default() };
    stack.admission.will(Verdict::Refuse(blind));
    let _held = fill(&stack, 1).await;
    let response = post(stack.address, chat("")).await;
    assert_eq!(response.status, 503);
    assert_eq!(response.error().2.as_deref(), Some("admission_unavailable"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rule_may_be_to_refuse() {
    let stack = Stack::with(&["--admission-fallback", "refuse"]).await;
    let address = stack.admission.address();
    stack.admission.kill();
    let response = post(stack.address, chat("")).await;
    assert_eq!(response.status, 503);
    assert_eq!(response.error().2.as_deref(), Some("admission_unavailable"));
    let _admission = FakeAdmission::start_at(address);
    stack.wait_until(|body| body.contains(r#""admission":{"state":"ok"}"#)).await;
    assert_eq!(post(stack.address, chat("")).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_verdict_that_does_not_come_is_not_waited_for() {
    let stack = Stack::with(&["--decide-timeout-ms", "50"]).await;
    stack.admission.will(Verdict::Hang);
    stack.engine.will(answer(&["x"]));
    let begun = Instant::now();
    let response = post(stack.address, chat("")).await;
    assert_eq!(response.status, 200);
    assert!(begun.elapsed() >= Duration::from_millis(50));
    assert_eq!(stack.engine.saw_prepare().await.request_id.len(), 32);
    assert_eq!(stack.engine.saw_generate().await.admitted_as, None);
}
