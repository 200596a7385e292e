//! How a gateway leaves.

use std::time::Duration;

use e2e::{Answer, Chat, Spec, Stack, eventually};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

const SOON: Duration = Duration::from_secs(2);

/// Runs `then` while a stream of many seconds runs, and says how that ended.
async fn during_a_stream(stack: &Stack, then: impl AsyncFnOnce()) -> Answer {
    let chat = Chat::new("on and on", 1_000);
    let stream = chat.ask(stack, 0);
    let then = async {
        let runs = async || stack.engine_metric("cadence_engine_running").await > 0.0;
        assert!(eventually(Duration::from_secs(5), runs).await, "the stream never began");
        then().await;
    };
    tokio::join!(stream, then).0
}

fn was_told(answer: &Answer) -> bool {
    let code = answer.error.as_ref().map(|error| &error["code"]);
    answer.status == 200 && code == Some(&json!("draining")) && !answer.done
}

#[tokio::test(flavor = "multi_thread")]
async fn ready_turns_first_late_arrivals_are_refused_and_streams_are_told() {
    let spec = Spec::mock(20_000, 100).gateway(&["--drain-timeout-ms", "1500"]);
    let mut stack = Stack::start(spec).await;
    let answer = during_a_stream(&stack, async || {
        stack.gateways[0].terminate();
        let turned = async || {
            stack
                .ready(0)
                .await
                .is_some_and(|(status, body)| status == 503 && body["status"] == "draining")
        };
        assert!(eventually(SOON, turned).await, "/ready never turned");
        let late = stack.http().post(stack.url(0, "/v1/chat/completions"));
        let late = late.json(&Chat::new("late", 4).body).send().await.expect("an answer");
        assert_eq!(late.status(), 503);
        assert_eq!(late.headers()["connection"], "close");
        assert!(late.headers().contains_key("retry-after"));
        let health = stack.http().get(stack.url(0, "/health")).send().await.expect("an answer");
        assert_eq!(health.status(), 200);
    })
    .await;
    assert!(was_told(&answer), "{answer:?}");
    assert!(stack.gateways[0].wait(Duration::from_secs(5)).success());
    assert!(
        eventually(SOON, async || { stack.engine_metric("cadence_engine_running").await == 0.0 })
            .await
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_ends_the_waiting() {
    let spec = Spec::mock(20_000, 100).gateway(&["--drain-timeout-ms", "60000"]);
    let mut stack = Stack::start(spec).await;
    let answer = during_a_stream(&stack, async || {
        stack.gateways[0].terminate();
        let draining = async || stack.ready(0).await.is_some_and(|(status, _)| status == 503);
        assert!(eventually(SOON, draining).await);
        stack.gateways[0].terminate();
    })
    .await;
    assert!(was_told(&answer), "{answer:?}");
    assert!(stack.gateways[0].wait(Duration::from_secs(5)).success());
}

#[tokio::test(flavor = "multi_thread")]
async fn half_a_body_and_a_reader_who_does_not_read_do_not_keep_it() {
    let spec = Spec::mock(2_000, 100).gateway(&["--drain-timeout-ms", "500"]);
    let mut stack = Stack::start(spec).await;
    let body = Chat::new("a long story", 900).body.to_string();
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    let open = async |part: &str| {
        let mut socket = TcpStream::connect(stack.address(0)).await.expect("a connection");
        socket.write_all(format!("{head}{part}").as_bytes()).await.expect("it is read");
        socket
    };
    let mut half = open(&body[..20]).await;
    let _deaf = open(&body).await;
    let in_flight =
        async || stack.gateway_metric(0, "cadence_gateway_in_flight{route=\"chat\"}").await == 2.0;
    assert!(eventually(SOON, in_flight).await);
    stack.gateways[0].terminate();
    let mut told = String::new();
    half.read_to_string(&mut told).await.expect("an answer and the end");
    assert!(told.starts_with("HTTP/1.1 503 ") && told.contains(r#""code":"draining""#), "{told}");
    assert!(stack.gateways[0].wait(Duration::from_secs(8)).success());
}
