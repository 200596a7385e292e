//! What the gateway counts. Alone in its process, because the recorder is the process's.

#[path = "gateway/support/mod.rs"]
#[expect(dead_code, unused_imports, reason = "the other test binary uses the rest")]
mod support;

use std::time::Duration;

use proto::v1::{FinishReason, Tier};
use support::{Connection, EngineSaw, LONG, Preparing, Stack, Step, Verdict, chat, get, post};

/// The value of a series; zero when there is none.
async fn value(stack: &Stack, series: &str) -> f64 {
    let text = get(stack.address, "/metrics").await.text();
    let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.map_or(0.0, |value| value.parse().expect("a number"))
}

async fn wait_for(stack: &Stack, series: &str, wanted: f64) {
    let poll = async {
        while value(stack, series).await != wanted {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let outcome = tokio::time::timeout(LONG, poll).await;
    assert!(outcome.is_ok(), "{series} is {} not {wanted}", value(stack, series).await);
}

const ENTERING: &str = r#"cadence_gateway_cancelled_total{progress="entering"}"#;
const IN_FLIGHT: &str = r#"cadence_gateway_in_flight{route="chat"}"#;

/// Starts a request, leaves after `pause`.
async fn leave(stack: &Stack, members: &str, pause: Duration) {
    let mut connection = Connection::open(stack.address).await;
    connection.send(chat(members)).await;
    tokio::time::sleep(pause).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_is_counted_once_and_nothing_stays_in_flight() {
    let stack = Stack::start().await;
    answers(&stack).await;
    failures(&stack).await;
    departures(&stack).await;
    told_to_end(&stack).await;
    labels(&stack).await;
}

async fn answers(stack: &Stack) {
    for members in ["", "\"stream\":true"] {
        assert_eq!(post(stack.address, chat(members)).await.status, 200);
    }
    wait_for(stack, r#"cadence_gateway_requests_total{route="chat",status="2xx"}"#, 2.0).await;
    for histogram in ["prepare", "decide", "ttft", "e2e"] {
        wait_for(stack, &format!("cadence_gateway_{histogram}_seconds_count"), 2.0).await;
    }
    wait_for(stack, r#"cadence_gateway_upstream_up{upstream="engine"}"#, 1.0).await;
    wait_for(stack, r#"cadence_gateway_upstream_up{upstream="admission"}"#, 1.0).await;
}

async fn failures(stack: &Stack) {
    let failed = Step::Finish(FinishReason::Failed);
    stack.engine.will(vec![Step::Accept(Tier::Promised), failed]);
    post(stack.address, chat("\"stream\":true")).await;
    wait_for(stack, r#"cadence_gateway_stream_errors_total{code="engine_failed"}"#, 1.0).await;
    stack.admission.will(Verdict::Refuse(proto::v1::Refused::default()));
    post(stack.address, chat("")).await;
    wait_for(stack, r#"cadence_gateway_refusals_total{reason="overloaded"}"#, 1.0).await;
    wait_for(stack, r#"cadence_gateway_requests_total{route="chat",status="5xx"}"#, 1.0).await;
    stack.admission.will(Verdict::Admit(support::admitted()));
    wait_for(stack, IN_FLIGHT, 0.0).await;
}

async fn departures(stack: &Stack) {
    stack.engine.will(vec![Step::Accept(Tier::Promised), Step::Token("x"), Step::Hang]);
    let pauses = (0..60).map(|index| Duration::from_micros(index * 400));
    let leaving = pauses.enumerate().map(|(index, pause)| {
        let members = if index % 2 == 0 { "" } else { "\"stream\":true" };
        leave(stack, members, pause)
    });
    futures_util::future::join_all(leaving).await;
    wait_for(stack, IN_FLIGHT, 0.0).await;

    let before = value(stack, ENTERING).await;
    stack.engine.prepares(Preparing::Hang);
    while !stack.engine.saw_nothing() {
        stack.engine.saw().await;
    }
    let mut connection = Connection::open(stack.address).await;
    connection.send(chat("")).await;
    while !matches!(stack.engine.saw().await, EngineSaw::Prepare(_)) {}
    drop(connection);
    wait_for(stack, ENTERING, before + 1.0).await;
    stack.engine.prepares(Preparing::Tokens(10));
}

/// A client that is told to go has not gone by itself.
async fn told_to_end(stack: &Stack) {
    let before = value(stack, ENTERING).await;
    let mut other = Stack::with(&["--drain-timeout-ms", "0"]).await;
    other.engine.prepares(Preparing::Hang);
    let mut connection = Connection::open(other.address).await;
    connection.send(chat("")).await;
    other.engine.saw_prepare().await;
    other.stop();
    assert_eq!(connection.read(false).await.status, 503);
    other.ended().await.expect("a clean end");
    assert_eq!(value(stack, ENTERING).await, before);
}

/// Nothing that a client chooses becomes a series.
async fn labels(stack: &Stack) {
    let ask = async |connection: &mut Connection, index: u32| {
        let path = |path: &str| format!("GET {path}{index} HTTP/1.1\r\nhost: x\r\n\r\n");
        let model = chat(&format!("\"model\":\"m{index}\",\"user\":\"u{index}\""));
        for request in [model, path("/path/"), path("/v1/models/m")] {
            connection.send(request).await;
            assert_eq!(connection.read(false).await.status, 404);
        }
    };
    let mut connection = Connection::open(stack.address).await;
    // The first of each kind of path adds its route.
    ask(&mut connection, 0).await;
    let before = series(stack).await;
    for index in 1..3_400 {
        ask(&mut connection, index).await;
    }
    assert_eq!(series(stack).await, before);
}

async fn series(stack: &Stack) -> usize {
    let text = get(stack.address, "/metrics").await.text();
    text.lines().filter(|line| !line.starts_with('#')).count()
}
