//! The way out.

use proto::v1::Tier;

use crate::support::{Connection, Stack, Step, chat, get, post};

/// Starts a stream that hangs after its first token.
async fn running(stack: &Stack) -> Connection {
    stack.engine.will(vec![Step::Accept(Tier::Promised), Step::Token("x"), Step::Hang]);
    let mut connection = Connection::open(stack.address).await;
    connection.send(chat("\"stream\":true")).await;
    assert_eq!(connection.head().await.0, 200);
    connection
}

async fn rest(mut connection: Connection) -> String {
    let mut text = Vec::new();
    while let Some(chunk) = connection.chunk().await {
        text.extend(chunk);
    }
    String::from_utf8(text).expect("UTF-8")
}

#[tokio::test(flavor = "multi_thread")]
async fn late_arrivals_are_refused_while_answers_run_on() {
    let mut stack = Stack::start().await;
    let connection = running(&stack).await;
    stack.stop();
    stack.wait_until(|body| body.contains(r#""status":"draining""#)).await;
    assert_eq!(get(stack.address, "/ready").await.status, 503);
    assert_eq!(get(stack.address, "/health").await.status, 200);
    let late = post(stack.address, chat("")).await;
    assert_eq!(late.status, 503);
    assert_eq!(late.error().2.as_deref(), Some("draining"));
    assert_eq!(late.header("connection"), Some("close"));
    assert!(late.header("retry-after").is_some());
    drop(connection);
    stack.ended().await.expect("a clean end");
}

#[tokio::test(flavor = "multi_thread")]
async fn past_the_limit_streams_end_in_band_and_answers_with_503() {
    let mut stack = Stack::with(&["--drain-timeout-ms", "100"]).await;
    let stream = running(&stack).await;
    let mut whole = Connection::open(stack.address).await;
    whole.send(chat("")).await;
    for _ in 0..2 {
        stack.engine.saw_prepare().await;
        stack.engine.saw_generate().await;
    }
    stack.stop();
    let text = rest(stream).await;
    assert!(text.contains(r#""code":"draining""#) && !text.contains("[DONE]"), "{text}");
    let response = whole.read(false).await;
    assert_eq!(response.status, 503);
    assert_eq!(response.error().2.as_deref(), Some("draining"));
    stack.engine.saw_drop().await;
    stack.engine.saw_drop().await;
    stack.ended().await.expect("a clean end");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_gateway_ends_at_once_with_connections_open() {
    let mut stack = Stack::start().await;
    let mut idle = Connection::open(stack.address).await;
    idle.send("GET /health HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert_eq!(idle.read(false).await.status, 200);
    stack.stop();
    let begun = std::time::Instant::now();
    stack.ended().await.expect("a clean end");
    assert!(begun.elapsed() < std::time::Duration::from_secs(2), "{:?}", begun.elapsed());
    assert!(idle.is_closed().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn asked_a_second_time_it_waits_no_longer() {
    let mut stack = Stack::with(&["--drain-timeout-ms", "3600000"]).await;
    let stream = running(&stack).await;
    stack.stop();
    stack.wait_until(|body| body.contains(r#""status":"draining""#)).await;
    stack.hurry();
    let text = rest(stream).await;
    assert!(text.contains(r#""code":"draining""#) && !text.contains("[DONE]"), "{text}");
    stack.ended().await.expect("a clean end");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_still_coming_may_finish_or_is_told() {
    let mut stack = Stack::with(&["--drain-timeout-ms", "500"]).await;
    let whole = chat("");
    let mut slow = Connection::open(stack.address).await;
    slow.send(&whole[..whole.len() - 1]).await;
    let mut stuck = Connection::open(stack.address).await;
    stuck.send(&whole[..whole.len() - 1]).await;
    // Both heads have been read once this is answered on the same worker.
    assert_eq!(post(stack.address, chat("")).await.status, 200);
    stack.stop();
    stack.wait_until(|body| body.contains(r#""status":"draining""#)).await;
    slow.send(&whole[whole.len() - 1..]).await;
    assert_eq!(slow.read(false).await.status, 200);
    let response = stuck.read(false).await;
    assert_eq!(response.status, 503);
    assert_eq!(response.error().2.as_deref(), Some("draining"));
    stack.ended().await.expect("a clean end");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_takes_nothing_does_not_hold_up_the_end() {
    let mut stack = Stack::with(&["--drain-timeout-ms", "100"]).await;
    let long: &'static str = "x".repeat(64 << 10).leak();
    let mut steps = vec![Step::Accept(Tier::Promised)];
    steps.extend(std::iter::repeat_n(Step::Token(long), 500));
    steps.push(Step::Hang);
    stack.engine.will(steps);
    let mut stream = Connection::open(stack.address).await;
    stream.send(chat("\"stream\":true")).await;
    assert_eq!(stream.head().await.0, 200);
    stack.stop();
    stack.ended().await.expect("a clean end");
}
