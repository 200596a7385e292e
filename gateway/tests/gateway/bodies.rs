//! Requests that are wrong, huge, slow or broken.

use std::time::{Duration, Instant};

use proto::v1::prepare_request::Input;

use crate::support::{
    CONTEXT_TOKENS, Connection, FakeAdmission, FakeEngine, Preparing, Stack, chat, completion,
    post, request,
};

const PATH: &str = "/v1/chat/completions";

/// All kinds of JSON value, but not these.
fn but(right: &[&str]) -> Vec<&'static str> {
    let all = ["true", "5", "0.5", "\"x\"", "[]", "{}"];
    all.into_iter().filter(|value| !right.contains(value)).collect()
}

/// Every field of both kinds of request with each wrong kind of JSON value.
fn wrong_values() -> Vec<(&'static str, Vec<&'static str>)> {
    vec![
        ("model", but(&["\"x\""])),
        ("max_tokens", but(&["5"])),
        ("max_completion_tokens", but(&["5"])),
        ("stop", but(&["\"x\"", "[]"])),
        ("temperature", but(&["5", "0.5"])),
        ("top_p", but(&["0.5"])),
        ("top_k", but(&["5"])),
        ("min_p", but(&["0.5"])),
        ("seed", but(&["5"])),
        ("n", but(&["5"])),
        ("presence_penalty", but(&["0.5"])),
        ("frequency_penalty", but(&["0.5"])),
        ("repeat_penalty", but(&["5", "0.5"])),
        ("repetition_penalty", but(&["5", "0.5"])),
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

/// What only chat has.
fn wrong_in_chat() -> Vec<(&'static str, Vec<&'static str>)> {
    vec![("messages", but(&[])), ("logprobs", but(&["true"])), ("top_logprobs", but(&[]))]
}

/// What only completions have.
fn wrong_in_completions() -> Vec<(&'static str, Vec<&'static str>)> {
    vec![
        ("prompt", but(&["\"x\""])),
        ("logprobs", but(&["5"])),
        ("echo", but(&["true"])),
        ("suffix", but(&[])),
        ("best_of", but(&[])),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn every_wrong_type_is_a_400_that_names_the_field() {
    let stack = Stack::start().await;
    sweep(&stack, chat, [wrong_values(), wrong_in_chat()].concat()).await;
    sweep(&stack, completion, [wrong_values(), wrong_in_completions()].concat()).await;
    assert!(stack.engine.saw_nothing() && stack.admission.saw_nothing());
    assert_eq!(post(stack.address, chat("")).await.status, 200);
}

async fn sweep(
    stack: &Stack,
    request: fn(&str) -> String,
    wrong: Vec<(&'static str, Vec<&'static str>)>,
) {
    let mut connection = Connection::open(stack.address).await;
    for (field, values) in wrong {
        for value in values {
            // Later members win, so this one replaces a good one.
            connection.send(request(&format!("\"{field}\":{value}"))).await;
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
        ("x-slo-e2e", "4000"),
        ("x-slo-timeout-ms", "4000"),
    ] {
        let headers = format!("{header}: {value}\r\n");
        let response = post(stack.address, request(PATH, &headers, body)).await;
        assert_eq!(response.status, 400, "{header}");
        assert_eq!(response.error().1.as_deref(), Some(header));
    }
}

/// What is wrong with a request is told whatever state the engine is in.
#[tokio::test(flavor = "multi_thread")]
async fn mistakes_are_told_while_there_is_no_engine() {
    let stack = Stack::start().await;
    let told = async |stack: &Stack| {
        let malformed = post(stack.address, chat("\"top_p\":5")).await.status;
        let unknown = post(stack.address, chat("\"model\":\"gpt-4\"")).await.status;
        (malformed, unknown, post(stack.address, chat("")).await.status)
    };
    stack.engine.says(|info| info.draining = true);
    stack.wait_until(|body| body.contains(r#""state":"draining""#)).await;
    assert_eq!(told(&stack).await, (400, 404, 503));
    stack.engine.kill();
    stack.wait_until(|body| body.contains(r#""state":"down""#)).await;
    assert_eq!(told(&stack).await, (400, 404, 503));
    // Before an engine has said what it serves, no name is wrong.
    let silent = FakeEngine::start();
    silent.hangs_on_info(true);
    let stack = Stack::with_upstreams(&[], silent, FakeAdmission::start());
    assert_eq!(told(&stack).await, (400, 503, 503));
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_at_the_edges_are_clamped_or_named() {
    let stack = Stack::start().await;
    stack.engine.prepares(Preparing::Tokens(CONTEXT_TOKENS - 10));
    let huge = ["32767", "2147483648", "9223372036854775807", "18446744073709551616", "1e30"];
    for max_tokens in huge {
        let response = post(stack.address, chat(&format!("\"max_tokens\":{max_tokens}"))).await;
        assert_eq!(response.status, 200, "{max_tokens}");
        stack.engine.saw_prepare().await;
        assert_eq!(stack.engine.saw_generate().await.max_tokens, 10);
        assert_eq!(stack.admission.saw_decide().await.max_tokens, 10);
    }
    for max_tokens in ["-1", "0", "0.5", "-1e30"] {
        let response = post(stack.address, chat(&format!("\"max_tokens\":{max_tokens}"))).await;
        assert_eq!(response.status, 400, "{max_tokens}");
        assert_eq!(response.error().1.as_deref(), Some("max_tokens"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn biases_of_no_token_cost_the_upstreams_nothing() {
    let stack = Stack::start().await;
    let many: Vec<_> = (0..90_000).map(|id| format!("\"{id}\":1")).collect();
    let many = format!("{{{}}}", many.join(","));
    for bias in [r#"{"999999":5}"#, r#"{"-1":5}"#, r#"{"abc":5}"#, r#"{"5":1e30}"#, &many] {
        let response = post(stack.address, chat(&format!("\"logit_bias\":{bias}"))).await;
        assert_eq!(response.status, 400, "{bias:.20}");
        assert_eq!(response.error().1.as_deref(), Some("logit_bias"));
    }
    assert!(stack.engine.saw_nothing() && stack.admission.saw_nothing());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_nul_goes_through_whole() {
    let stack = Stack::start().await;
    let body = r#"{"messages":[{"role":"system","content":"a\u0000b"},{"role":"user","content":"\u0000"}],
        "stop":"x\u0000"}"#;
    assert_eq!(post(stack.address, request(PATH, "", body)).await.status, 200);
    let Some(Input::Chat(chat)) = stack.engine.saw_prepare().await.input else { panic!("no chat") };
    assert_eq!(chat.messages[0].content, "a\0b");
    assert_eq!(stack.engine.saw_generate().await.stop, ["x\0"]);
    let response = post(stack.address, completion(r#""prompt":"a\u0000b""#)).await;
    assert_eq!(response.status, 200);
    let prompt = stack.engine.saw_prepare().await.input;
    assert_eq!(prompt, Some(Input::Text("a\0b".into())));
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
