//! How much there may be of everything.

use std::time::Duration;

use proto::v1::Tier;

use crate::support::{Connection, LONG, Response, Stack, Step, answer, chat, get, post, request};

const CHAT: &str = "/v1/chat/completions";

/// Asks until the answer has this status.
async fn until(status: u16, ask: impl AsyncFn() -> Response) -> Response {
    let poll = async {
        loop {
            let response = ask().await;
            if response.status == status {
                return response;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(LONG, poll).await.expect("never")
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_are_bounded_in_sum_and_small_ones_get_by() {
    let flags = ["--body-bytes-max", "200000", "--bodies-bytes-max", "200000"];
    let stack = Stack::with(&flags).await;
    let large = chat(&format!("\"user\":\"{}\"", "x".repeat(150_000)));
    let mut slow = Connection::open(stack.address).await;
    slow.send(&large[..large.len() - 1]).await;
    // Until most of it has been read, there is room.
    let refused = until(503, async || post(stack.address, &large).await).await;
    assert_eq!(refused.error().2.as_deref(), Some("bodies_full"));
    let wait = refused.header("retry-after").expect("a wait");
    assert!((1..=59).contains(&wait.parse().expect("seconds")), "{wait}");
    assert_eq!(refused.header("connection"), Some("close"));
    assert_eq!(post(stack.address, chat("")).await.status, 200);
    slow.send(&large[large.len() - 1..]).await;
    assert_eq!(slow.read(false).await.status, 200);
    until(200, async || post(stack.address, &large).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_was_read_counts_for_what_is_kept_of_it() {
    let flags = ["--body-bytes-max", "200000", "--bodies-bytes-max", "200000"];
    let stack = Stack::with(&flags).await;
    let text = "x".repeat(150_000);
    let ignored = chat(&format!("\"user\":\"{text}\""));
    let kept = format!(r#"{{"messages":[{{"role":"user","content":"{text}"}}]}}"#);
    let kept = request(CHAT, "", &kept);
    stack.engine.will(vec![Step::Accept(Tier::Promised), Step::Token("x"), Step::Hang]);
    let mut running = Vec::new();
    // Nothing is left of the first one's padding, and all of the second one's text.
    for bytes in [&ignored, &kept] {
        let mut connection = Connection::open(stack.address).await;
        connection.send(bytes).await;
        stack.engine.saw_prepare().await;
        stack.engine.saw_generate().await;
        running.push(connection);
    }
    let refused = post(stack.address, &kept).await;
    assert_eq!((refused.status, refused.error().2.as_deref()), (503, Some("bodies_full")));
    drop(running);
    stack.engine.will(answer(&["x"]));
    until(200, async || post(stack.address, &kept).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_announced_and_never_sent_locks_nobody_out() {
    let flags = ["--body-bytes-max", "200000", "--bodies-bytes-max", "200000"];
    let stack = Stack::with(&flags).await;
    let head = format!(
        "POST {CHAT} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
         content-length: 200000\r\n\r\n{{"
    );
    let mut announced = Vec::new();
    for _ in 0..20 {
        let mut connection = Connection::open(stack.address).await;
        connection.send(&head).await;
        announced.push(connection);
    }
    let large = chat(&format!("\"user\":\"{}\"", "x".repeat(150_000)));
    assert_eq!(post(stack.address, &large).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trickling_body_is_cut_although_it_moves() {
    let stack = Stack::with(&["--body-timeout-ms", "200"]).await;
    let whole = chat("");
    let (head, body) = whole.split_once("\r\n\r\n").expect("a head");
    let mut connection = Connection::open(stack.address).await;
    connection.send(format!("{head}\r\n\r\n")).await;
    let trickle = async {
        for byte in body.as_bytes() {
            connection.send([*byte]).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        connection.read(false).await
    };
    let response = tokio::time::timeout(LONG, trickle).await.expect("an end");
    assert_eq!(response.status, 408);
    assert!(stack.engine.saw_nothing());
}

#[tokio::test(flavor = "multi_thread")]
async fn one_connection_too_many_is_told_so() {
    let stack = Stack::with(&["--connections-max", "2"]).await;
    let open = async || {
        let mut connection = Connection::open(stack.address).await;
        connection.send("GET /health HTTP/1.1\r\nhost: x\r\n\r\n").await;
        (connection.read(false).await, connection)
    };
    let mut kept = Vec::new();
    while kept.len() < 2 {
        let (response, connection) = open().await;
        if response.status == 200 {
            kept.push(connection);
        }
    }
    let (refused, mut connection) = open().await;
    assert_eq!(refused.status, 503);
    assert_eq!(refused.error().2.as_deref(), Some("too_many_connections"));
    assert!(refused.header("retry-after").is_some());
    assert!(connection.is_closed().await);
    kept.pop();
    until(200, async || open().await.0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_other_origins_may_not_read() {
    let stack = Stack::with(&["--cors-origins", "http://a,http://b"]).await;
    let ask = async |origin: &str| {
        let head = format!("GET /version HTTP/1.1\r\nhost: x\r\norigin: {origin}\r\n\r\n");
        let response = post(stack.address, head).await;
        assert_eq!(response.header("vary"), Some("origin"));
        response.header("access-control-allow-origin").map(str::to_owned)
    };
    assert_eq!(ask("http://b").await.as_deref(), Some("http://b"));
    assert_eq!(ask("http://c").await, None);
    assert_eq!(get(stack.address, "/version").await.header("access-control-allow-origin"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_as_long_as_allowed_is_no_trouble_upstream() {
    let limit = (32 << 20).to_string();
    let flags = ["--body-bytes-max", &limit, "--bodies-bytes-max", &limit];
    let stack = Stack::with(&flags).await;
    let body = |bytes: usize| {
        format!(r#"{{"messages":[{{"role":"user","content":"{}"}}]}}"#, "x".repeat(bytes))
    };
    let response = post(stack.address, request(CHAT, "", &body((32 << 20) - 100))).await;
    assert_eq!(response.status, 200, "{}", response.text());
    let response = post(stack.address, request(CHAT, "", &body(33 << 20))).await;
    assert_eq!(response.status, 413);
}
