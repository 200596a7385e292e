//! What is no request, and requests of an odd kind.

use std::time::{Duration, Instant};

use proto::v1::Tier;

use crate::support::{Connection, LONG, Stack, Step, chat, get, post, request};

const CHAT: &str = "/v1/chat/completions";

/// What these bytes are told: one answer, and the end.
async fn told(stack: &Stack, bytes: impl AsRef<[u8]>) -> (u16, String) {
    let mut connection = Connection::open(stack.address).await;
    connection.send(bytes).await;
    let response = connection.read(false).await;
    let code = response.error().2.expect("a code");
    assert_eq!(response.header("connection"), Some("close"), "{response:?}");
    assert!(connection.is_closed().await, "something follows {response:?}");
    (response.status, code)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_request_gets_the_envelope_and_the_end() {
    let stack = Stack::start().await;
    for bytes in [
        &b"GARBAGE\r\n\r\n"[..],
        b"\0",
        b"GET /a b HTTP/1.1\r\nhost: x\r\n\r\n",
        b"GET / HTTP/2.0\r\nhost: x\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: x\r\nno header\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: x\r\na: b\0\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: gzip\r\n\r\n",
        b"POST / HTTP/1.0\r\n\r\n",
    ] {
        let (status, code) = told(&stack, bytes).await;
        let text = String::from_utf8_lossy(bytes);
        assert_eq!((status, code.as_str()), (400, "malformed_request"), "{text:.60}");
    }
    assert_eq!(post(stack.address, chat("")).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_too_large_is_431_and_one_that_fits_is_not() {
    let stack = Stack::start().await;
    let path = |bytes: usize| format!("GET /{} HTTP/1.1\r\nhost: x\r\n\r\n", "x".repeat(bytes));
    let field =
        |bytes: usize| format!("GET / HTTP/1.1\r\nhost: x\r\na: {}\r\n\r\n", "x".repeat(bytes));
    let fields =
        |count: usize| format!("GET / HTTP/1.1\r\nhost: x\r\n{}\r\n", "a: b\r\n".repeat(count - 1));
    for bytes in [path(200_000), field(200_000), field(1 << 20), path(90_000), fields(97)] {
        let told = told(&stack, bytes).await;
        assert_eq!(told, (431, "request_head_too_large".to_owned()));
    }
    for bytes in [path(30_000), field(30_000), fields(96)] {
        assert_eq!(post(stack.address, bytes).await.status, 404);
    }
    // A long body right behind a short head is no long head.
    let long = format!("\"user\":\"{}\"", "x".repeat(1 << 20));
    assert_eq!(post(stack.address, chat(&long)).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_that_does_not_end_is_408_on_every_request_of_a_connection() {
    let stack = Stack::with(&["--head-timeout-ms", "50"]).await;
    let mut connection = Connection::open(stack.address).await;
    for _ in 0..2 {
        connection.send("GET /health HTTP/1.1\r\nhost: x\r\n\r\n").await;
        assert_eq!(connection.read(false).await.status, 200);
    }
    let begun = Instant::now();
    connection.send("GET /health HTTP/1.1\r\nhost:").await;
    let response = connection.read(false).await;
    assert_eq!((response.status, response.error().2.as_deref()), (408, Some("request_timeout")));
    assert!(begun.elapsed() >= Duration::from_millis(50));
    assert!(connection.is_closed().await);
    assert_eq!(told(&stack, "GET").await, (408, "request_timeout".to_owned()));
    // Who says nothing at all is told nothing.
    assert!(Connection::open(stack.address).await.is_closed().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_connection_is_closed_without_a_word() {
    let stack = Stack::with(&["--keep-alive-ms", "50"]).await;
    let mut connection = Connection::open(stack.address).await;
    connection.send("GET /health HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert_eq!(connection.read(false).await.status, 200);
    assert!(connection.is_closed().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_breaks_is_told_once() {
    let stack = Stack::start().await;
    let head = format!(
        "POST {CHAT} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
         transfer-encoding: chunked\r\n\r\n"
    );
    for chunks in ["zz\r\n", "5\r\n{\"a\":\r\n-1\r\n", "ffffffffffffffffff\r\n"] {
        let told = told(&stack, format!("{head}{chunks}")).await;
        assert_eq!(told, (400, "malformed_body".to_owned()), "{chunks}");
    }
    assert!(stack.engine.saw_nothing());
}

#[tokio::test(flavor = "multi_thread")]
async fn pipelined_requests_are_answered_in_order_and_garbage_behind_them_too() {
    let stack = Stack::start().await;
    let mut connection = Connection::open(stack.address).await;
    let version = "GET /version HTTP/1.1\r\nhost: x\r\n\r\n";
    connection.send(format!("{}{}{version}", chat(""), chat("\"stream\":true"))).await;
    assert!(connection.read(false).await.text().contains("chat.completion\""));
    assert!(connection.read(false).await.text().ends_with("data: [DONE]\n\n"));
    assert!(connection.read(false).await.text().contains("cadence"));
    connection.send(format!("{version}{version}GARBAGE\r\n\r\n")).await;
    for status in [200, 200, 400] {
        assert_eq!(connection.read(false).await.status, status);
    }
    assert!(connection.is_closed().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_asks_for_the_end_gets_it() {
    let stack = Stack::start().await;
    for members in ["", "\"stream\":true", "\"n\":0"] {
        let mut connection = Connection::open(stack.address).await;
        connection
            .send(chat(members).replace("host: x\r\n", "host: x\r\nconnection: close\r\n"))
            .await;
        assert_eq!(connection.read(false).await.header("connection"), Some("close"));
        assert!(connection.is_closed().await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn older_clients_get_no_chunks() {
    let stack = Stack::start().await;
    let old = |members: &str, header: &str| {
        chat(members).replace("HTTP/1.1\r\n", &format!("HTTP/1.0\r\n{header}"))
    };
    for header in ["", "connection: keep-alive\r\n"] {
        let response = post(stack.address, old("\"stream\":true", header)).await;
        assert_eq!((response.status, response.complete), (200, true));
        assert_eq!(response.header("transfer-encoding"), None);
        assert_ne!(response.header("connection"), Some("keep-alive"));
        let text = response.text();
        assert!(text.starts_with("data: {") && text.ends_with("data: [DONE]\n\n"), "{text}");
    }
    let mut connection = Connection::open(stack.address).await;
    for _ in 0..2 {
        connection.send(old("", "connection: keep-alive\r\n")).await;
        let response = connection.read(false).await;
        assert_eq!(response.header("connection"), Some("keep-alive"));
        assert!(response.header("content-length").is_some());
    }
    connection.send(old("", "")).await;
    assert_eq!(connection.read(false).await.status, 200);
    assert!(connection.is_closed().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn other_protocols_are_not_spoken_and_not_waited_for() {
    let stack = Stack::start().await;
    let websocket = "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n";
    let body = r#"{"messages":[{"role":"user","content":"hi"}]}"#;
    let refused = told(&stack, request(CHAT, websocket, body)).await;
    assert_eq!(refused, (400, "upgrade_not_supported".to_owned()));
    for (line, status) in [
        (format!("GET {CHAT}"), 405),
        ("GET /v1/realtime".into(), 404),
        ("GET /health".into(), 200),
    ] {
        let bytes = format!("{line} HTTP/1.1\r\nhost: x\r\n{websocket}\r\n");
        let mut connection = Connection::open(stack.address).await;
        connection.send(bytes).await;
        assert_eq!(connection.read(false).await.status, status, "{line}");
        assert!(connection.is_closed().await, "{line}");
    }
    let connect = "CONNECT example.com:443 HTTP/1.1\r\nhost: example.com:443\r\n\r\n";
    assert_eq!(told(&stack, connect).await.0, 404);
    // Another upgrade is politely ignored.
    let h2c = "connection: upgrade, http2-settings\r\nupgrade: h2c\r\n";
    assert_eq!(post(stack.address, request(CHAT, h2c, body)).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_path_answers_head_and_options() {
    let stack = Stack::with(&["--api-keys", "sk-a"]).await;
    let paths =
        ["/", "/nowhere", CHAT, "/v1/completions", "/v1/models", "/v1/models/x/y", "/health"];
    let mut connection = Connection::open(stack.address).await;
    for path in paths {
        connection
            .send(format!("OPTIONS {path} HTTP/1.1\r\nhost: x\r\norigin: http://a\r\n\r\n"))
            .await;
        let response = connection.read(false).await;
        assert_eq!(response.status, 204, "{path}");
        assert_eq!(response.header("access-control-allow-origin"), Some("*"), "{path}");
        let headers = response.header("access-control-allow-headers").expect("a list");
        assert!(headers.contains("authorization") && headers.contains("x-api-key"), "{headers}");
        for method in ["GET", "HEAD"] {
            let head = "host: x\r\nauthorization: Bearer sk-a\r\n\r\n";
            connection.send(format!("{method} {path} HTTP/1.1\r\n{head}")).await;
            let response = connection.read(method == "HEAD").await;
            assert!([200, 404, 405].contains(&response.status), "{method} {path}");
            assert_eq!(response.status == 405, response.header("allow").is_some(), "{path}");
            assert!(response.header("x-request-id").is_some(), "{path}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn paths_that_are_no_text_are_not_found() {
    let stack = Stack::start().await;
    for path in ["/v1/models/%ff", "/%ff/%00", "/v1/models/%2e%2e%2f", "/v1/models/%", "/?%ff"] {
        let response = get(stack.address, path).await;
        assert_eq!(response.status, 404, "{path}");
        response.error();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn little_that_nobody_read_does_not_cost_the_connection() {
    let stack = Stack::with(&["--api-keys", "sk-a"]).await;
    let mut connection = Connection::open(stack.address).await;
    let body = r#"{"messages":[{"role":"user","content":"hi"}]}"#;
    let key = "authorization: Bearer sk-a\r\n";
    let chunked = format!(
        "POST /nowhere HTTP/1.1\r\nhost: x\r\n{key}transfer-encoding: chunked\r\n\r\n\
         5\r\nxxxxx\r\n0\r\n\r\n"
    );
    for (bytes, status) in [
        (request("/nowhere", key, body), 404),
        (request(CHAT, "", body), 401),
        (request("/health", key, &"x".repeat(60_000)), 405),
        (chunked, 404),
        (request(CHAT, key, "{"), 400),
        (request(CHAT, key, &format!("{{{}", " ".repeat(1 << 20))), 400),
        (request(CHAT, key, body), 200),
    ] {
        connection.send(bytes).await;
        let response = connection.read(false).await;
        assert_eq!(response.status, status, "{}", response.text());
        assert_eq!(response.header("connection"), None);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_method_that_nobody_answers_to_has_a_body_that_nobody_reads() {
    let stack = Stack::start().await;
    let put = |body: &str| request(CHAT, "", body).replacen("POST", "PUT", 1);
    let chunked = format!(
        "PUT {CHAT} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n5\r\nxxxxx\r\n"
    );
    let mut connection = Connection::open(stack.address).await;
    for bytes in [put("{}"), format!("{chunked}0\r\n\r\n"), put(&"x".repeat(60_000))] {
        connection.send(bytes).await;
        let response = connection.read(false).await;
        assert_eq!((response.status, response.header("connection")), (405, None));
    }
    let mut closed = connection;
    closed.send(chunked).await;
    assert_eq!(closed.read(false).await.header("connection"), Some("close"));
    assert!(closed.is_closed().await);
    let large = put(&"x".repeat(1 << 20));
    for round in 0..50 {
        let mut connection = Connection::open(stack.address).await;
        connection.send(&large).await;
        let response = connection.read(false).await;
        assert_eq!(response.status, 405, "round {round}");
        assert_eq!(response.header("connection"), Some("close"), "round {round}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn much_that_nobody_reads_ends_the_connection_cleanly_500_times() {
    let stack = Stack::with(&["--api-keys", "sk-a"]).await;
    let large = "x".repeat(1 << 20);
    let wrong = "authorization: Bearer wrong\r\n";
    for round in 0..500_u32 {
        let path = if round.is_multiple_of(2) { "/nowhere" } else { CHAT };
        let mut connection = Connection::open(stack.address).await;
        connection.send(request(path, wrong, &large)).await;
        let response = connection.read(false).await;
        assert_eq!(response.status, 401, "round {round}");
        assert_eq!(response.header("connection"), Some("close"));
    }
    let deadline = Instant::now() + LONG;
    while half_closed(stack.address.port()) > 0 {
        assert!(Instant::now() < deadline, "sockets stay in CLOSE-WAIT");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Sockets of this port whose other end has closed, and which we have not.
fn half_closed(port: u16) -> usize {
    let table = std::fs::read_to_string("/proc/net/tcp").expect("a table of sockets");
    let local = format!(":{port:04X}");
    let rows = table.lines().map(|row| row.split_whitespace().collect::<Vec<_>>());
    rows.filter(|row| row.len() > 3 && row[1].ends_with(&local) && row[3] == "08").count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_behind_what_it_sent_ahead_is_noticed() {
    let stack = Stack::start().await;
    stack.engine.will(vec![Step::Accept(Tier::Promised), Step::Hang]);
    let ahead = "GET /health HTTP/1.1\r\nhost: x\r\n\r\n".repeat(1_000);
    let mut connection = Connection::open(stack.address).await;
    connection.send(chat("")).await;
    stack.engine.saw_prepare().await;
    stack.engine.saw_generate().await;
    connection.send(ahead).await;
    drop(connection);
    stack.engine.saw_drop().await;

    // Who sends on and on is not waited for.
    let mut connection = Connection::open(stack.address).await;
    connection.send(chat("\"stream\":true")).await;
    stack.engine.saw_prepare().await;
    stack.engine.saw_generate().await;
    connection.send("x".repeat(4 << 20)).await;
    stack.engine.saw_drop().await;
}
