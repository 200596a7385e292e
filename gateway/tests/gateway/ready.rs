//! What `/ready` and `/health` say, and what follows from it.

use std::time::{Duration, Instant};

use crate::support::{FakeAdmission, FakeEngine, LONG, Stack, chat, get, post};

#[tokio::test(flavor = "multi_thread")]
async fn ready_needs_an_engine_and_only_reports_admission() {
    let stack = Stack::start().await;
    let ready = get(stack.address, "/ready").await;
    assert_eq!(ready.status, 200);
    assert_eq!(ready.json()["engine"]["model"], "org/tiny");
    stack.admission.kill();
    stack.wait_until(|body| body.contains(r#""admission":{"state":"degraded"}"#)).await;
    assert_eq!(get(stack.address, "/ready").await.status, 200);
    stack.engine.kill();
    stack.wait_until(|body| body.contains(r#""status":"not ready""#)).await;
    let ready = get(stack.address, "/ready").await;
    assert_eq!((ready.status, ready.header("retry-after")), (503, Some("1")));
    assert_eq!(get(stack.address, "/health").await.status, 200);
    // The model is still listed: a menu should not empty because of a restart.
    assert_eq!(get(stack.address, "/v1/models").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn before_the_engine_answers_everything_is_503() {
    let engine = FakeEngine::start();
    engine.hangs_on_info(true);
    let stack = Stack::with_upstreams(&[], engine, FakeAdmission::start());
    for path in ["/ready", "/v1/models"] {
        assert_eq!(get(stack.address, path).await.status, 503, "{path}");
    }
    let response = post(stack.address, chat("")).await;
    assert_eq!(response.status, 503);
    assert_eq!(response.error().2.as_deref(), Some("engine_unavailable"));
    assert!(response.header("retry-after").is_some());
    stack.engine.hangs_on_info(false);
    stack.wait_until(|body| body.contains(r#""status":"ready""#)).await;
    assert_eq!(post(stack.address, chat("")).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stuck_draining_or_silent_engine_is_not_ready() {
    let stack = Stack::start().await;
    stack.engine.says(|info| info.stuck = true);
    stack.wait_until(|body| body.contains(r#""state":"stuck""#)).await;
    assert_eq!(post(stack.address, chat("")).await.status, 503);
    stack.engine.says(|info| (info.stuck, info.draining) = (false, true));
    stack.wait_until(|body| body.contains(r#""state":"draining""#)).await;
    assert_eq!(post(stack.address, chat("")).await.status, 503);
    stack.engine.says(|info| info.draining = false);
    stack.wait_until(|body| body.contains(r#""status":"ready""#)).await;
    let silent = Instant::now();
    stack.engine.hangs_on_info(true);
    stack.wait_until(|body| body.contains(r#""status":"not ready""#)).await;
    assert!(silent.elapsed() < Duration::from_secs(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_engine_is_found_again() {
    let stack = Stack::start().await;
    let address = stack.engine.address();
    stack.engine.kill();
    stack.wait_until(|body| body.contains(r#""status":"not ready""#)).await;
    let begun = Instant::now();
    assert_eq!(post(stack.address, chat("")).await.status, 503);
    assert!(begun.elapsed() < LONG / 10, "known to be down, so refused at once");
    let _engine = FakeEngine::start_at(address);
    stack.wait_until(|body| body.contains(r#""status":"ready""#)).await;
    assert_eq!(post(stack.address, chat("")).await.status, 200);
}
