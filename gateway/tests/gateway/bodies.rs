//! Requests that are wrong, huge, slow or broken.

use std::time::{Duration, Instant};

use crate::support::{Connection, Stack, chat, post, request};

const PATH: &str = "/v1/chat/completions";

/// Every field of a chat request with each wrong kind of JSON value.
fn wrong_values() -> Vec<(&'static str, Vec<&'static str>)> {
    let all = ["true", "5", "0.5", "\"x\"", "[]", "{}"];
    let but = |right: &[&str]| all.into_iter().filter(|value| !right.contains(value)).collect();
    vec![
        ("messages", but(&[])),
        ("model", but(&["\"x\""])),
        ("max_tokens", but(&["5"])),
        ("max_completion_tokens", but(&["5"])),
        ("stop", but(&["\"x\"", "[]"])),
        ("temperature", but(&["5", "0.5"])),
        ("top_p", but(&["0.5"])),
        ("top_k", but(&["5"])),
        ("min_p", but(&["0.5"])),
        ("seed", but(&["5"])),
        ("n", but(&[])),
        ("logprobs", but(&[])),
        ("top_logprobs", but(&[])),
        ("presence_penalty", but(&[])),
        ("frequency_penalty", but(&[])),
        ("repeat_penalty", but(&[])),
        ("logit_bias", but(&["{}"])),
        ("response_format", but(&[])),
        ("tools", but(&["[]"])),
        ("tool_choice", but(&[])),
        ("parallel_tool_calls", but(&["true"])),
        ("functions", but(&["[]"])),
        ("function_call", but(&[])),
        ("stream", but(&["true"])),
        ("stream_options", but(&["{}"])),
        ("user", but(&["\"x\""])),
        ("metadata", but(&["{}"])),
        ("store", but(&["true"])),
        ("service_tier", but(&["\"x\""])),
        ("reasoning_effort", but(&["\"x\""])),
        ("verbosity", but(&["\"x\""])),
        ("prediction", but(&["{}"])),
        ("modalities", but(&["[]"])),
        ("prompt_cache_key", but(&["\"x\""])),
        ("safety_identifier", but(&["\"x\""])),
        ("web_search_options", but(&["{}"])),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn every_wrong_type_is_a_400_that_names_the_field() {
    let stack = Stack::start().await;
    let mut connection = Connection::open(stack.address).await;
    for (field, values) in wrong_values() {
        for value in values {
            // Later members win, so this one replaces good messages.
            connection.send(chat(&format!("\"{field}\":{value}"))).await;
            let response = connection.read(false).await;
            assert_eq!(response.status, 400, "{field}: {value}: {}", response.text());
            let (kind, param, _) = response.error();
            assert_eq!(
                (kind.as_str(), param.as_deref()),
                ("invalid_request_error", Some(field)),
                "{value}"
            );
        }
    }
    assert!(stack.engine.saw_nothing() && stack.admission.saw_nothing());
    assert_eq!(post(stack.address, chat("")).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_bodies_are_400() {
    let stack = Stack::start().await;
    let deep = "[".repeat(1 << 20);
    let nested = format!("{{\"messages\":{}", "[".repeat(200));
    for body in [
        "",
        "{:",
        "{\"messages\":[",
        "[]",
        "\"x\"",
        "null",
        "5",
        &deep,
        &nested,
        "{\"messages\":[{\"role\":\"user\",\"content\":\"\\ud83d\"}]}",
        "\u{feff}{}",
        "{\"a\":NaN}",
        "{\"temperature\":1e999}",
    ] {
        let response = post(stack.address, request(PATH, "", body)).await;
        assert_eq!(response.status, 400, "{body:.40}");
        assert_eq!(response.error().0, "invalid_request_error");
    }
    let mut invalid = request(PATH, "", "{\"messages\":\"??\"}").into_bytes();
    let at = invalid.len() - 4;
    invalid[at] = 0xff;
    assert_eq!(post(stack.address, invalid).await.status, 400);
    assert_eq!(post(stack.address, chat("")).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn empty_messages_are_told_before_a_stream_begins() {
    let stack = Stack::start().await;
    for stream in ["true", "false"] {
        let body = format!("{{\"messages\":[],\"stream\":{stream}}}");
        let response = post(stack.address, request(PATH, "", &body)).await;
        assert_eq!(response.status, 400);
        let (_, param, code) = response.error();
        assert_eq!((param.as_deref(), code.as_deref()), (Some("messages"), Some("empty_array")));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_slo_headers_are_named() {
    let stack = Stack::start().await;
    let body = r#"{"messages":[{"role":"user","content":"hi"}]}"#;
    for (header, value) in [
        ("x-slo-e2e-ms", "soon"),
        ("x-slo-ttft-ms", "0"),
        ("x-llm-d-slo-ttft-ms", "-5"),
        ("x-slo-patience-ms", "1e3"),
        ("x-slo-mode", "promised"),
    ] {
        let headers = format!("{header}: {value}\r\n");
        let response = post(stack.address, request(PATH, &headers, body)).await;
        assert_eq!(response.status, 400, "{header}");
        assert_eq!(response.error().1.as_deref(), Some(header));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn other_content_types_are_415() {
    let stack = Stack::start().await;
    let with = |kind: &str| {
        format!("POST {PATH} HTTP/1.1\r\nhost: x\r\n{kind}content-length: 2\r\n\r\n{{}}")
    };
    for kind in
        ["", "content-type: text/plain\r\n", "content-type: application/x-www-form-urlencoded\r\n"]
    {
        let response = post(stack.address, with(kind)).await;
        assert_eq!(response.status, 415, "{kind}");
        response.error();
    }
    for kind in ["application/json; charset=utf-8", "Application/JSON ;x=y"] {
        let response = post(stack.address, with(&format!("content-type: {kind}\r\n"))).await;
        assert_eq!(response.error().1.as_deref(), Some("messages"), "{kind}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_too_large_is_cut_and_the_connection_closed() {
    let stack = Stack::with(&["--body-bytes-max", "1000"]).await;
    let announced = request(PATH, "", &"x".repeat(1_001));
    let chunked = format!(
        "POST {PATH} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ntransfer-encoding: \
         chunked\r\n\r\n800\r\n{}\r\n",
        "x".repeat(0x800)
    );
    for bytes in [announced, chunked] {
        let mut connection = Connection::open(stack.address).await;
        connection.send(bytes).await;
        let response = connection.read(false).await;
        assert_eq!(response.status, 413);
        assert_eq!(response.error().2.as_deref(), Some("request_too_large"));
        assert_eq!(response.header("connection"), Some("close"));
        assert!(connection.is_closed().await);
    }
    assert_eq!(post(stack.address, chat("")).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_stalls_is_408() {
    let stack = Stack::with(&["--body-timeout-ms", "50"]).await;
    let mut connection = Connection::open(stack.address).await;
    let begun = Instant::now();
    let whole = chat("");
    connection.send(&whole[..whole.len() - 5]).await;
    let response = connection.read(false).await;
    assert_eq!(response.status, 408);
    assert_eq!(response.error().2.as_deref(), Some("request_timeout"));
    assert!(begun.elapsed() >= Duration::from_millis(50));
    assert!(connection.is_closed().await);
    assert!(stack.engine.saw_nothing());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_with_an_unread_body_does_not_hang_the_connection() {
    let stack = &Stack::start().await;
    let endless = |path| {
        format!(
            "POST {path} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n5\r\nxxxxx\r\n"
        )
    };
    let large = |path| request(path, "", &"x".repeat(1 << 20));
    let cases = [
        (large("/nowhere"), 404),
        (endless("/nowhere"), 404),
        (large("/health"), 405),
        (endless("/health"), 405),
        (endless(PATH), 415),
    ];
    let closes = cases.map(|(bytes, status)| async move {
        let mut connection = Connection::open(stack.address).await;
        connection.send(bytes).await;
        let response = connection.read(false).await;
        assert_eq!(response.status, status);
        assert_eq!(response.header("connection"), Some("close"));
        assert!(connection.is_closed().await);
    });
    futures_util::future::join_all(closes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_waits_for_a_go_ahead_gets_it() {
    let stack = Stack::start().await;
    let whole = chat("").replace("host: x", "host: x\r\nexpect: 100-continue");
    let (head, body) = whole.split_once("\r\n\r\n").expect("a head");
    let mut connection = Connection::open(stack.address).await;
    connection.send(format!("{head}\r\n\r\n")).await;
    assert_eq!(connection.head().await.0, 100);
    connection.send(body).await;
    assert_eq!(connection.read(false).await.status, 200);
}
