//! The bytes of a streamed answer.

use proto::v1::{FinishReason, Tier};
use tonic::Status;

use crate::support::{Connection, MODEL, Response, Stack, Step, answer, chat, post};

/// The body of a stream with the parts that differ from run to run replaced.
fn settled(response: &Response) -> String {
    let text = response.text();
    let (id, created) = {
        let first = text.lines().next().expect("a record");
        let json: serde_json::Value = serde_json::from_str(&first["data: ".len()..]).expect("JSON");
        (json["id"].as_str().expect("an id").to_owned(), json["created"].to_string())
    };
    let request_id = response.header("x-request-id").expect("a request id");
    assert_eq!(id, format!("chatcmpl-{request_id}"));
    text.replace(&id, "ID").replace(&format!("\"created\":{created}"), "\"created\":NOW")
}

/// A chunk's record.
fn chunk(delta: &str, finish_reason: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!(
        "data: {{\"id\":\"ID\",\"object\":\"chat.completion.chunk\",\"created\":NOW,\"model\":\"{MODEL}\",\
         \"system_fingerprint\":\"fp_{version}_01234567\",\"choices\":[{{\"index\":0,\"delta\":{delta},\
         \"finish_reason\":{finish_reason}}}]}}\n\n"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_is_exactly_these_bytes() {
    let stack = Stack::start().await;
    stack.engine.will(answer(&["Hel", "", "lo\n\"é\""]));
    let response = post(stack.address, chat(r#""stream":true"#)).await;
    assert_eq!(response.status, 200);
    assert_eq!(response.header("content-type"), Some("text/event-stream"));
    assert_eq!(response.header("cache-control"), Some("no-cache, no-transform"));
    assert_eq!(response.header("x-accel-buffering"), Some("no"));
    assert_eq!(response.header("content-length"), None);
    assert_eq!(response.header("content-encoding"), None);
    let wanted = [
        chunk(r#"{"role":"assistant","content":""}"#, "null"),
        chunk(r#"{"content":"Hel"}"#, "null"),
        chunk(r#"{"content":"lo\n\"é\""}"#, "null"),
        chunk("{}", "\"stop\""),
        "data: [DONE]\n\n".into(),
    ];
    assert_eq!(settled(&response), wanted.concat());
}

#[tokio::test(flavor = "multi_thread")]
async fn usage_is_a_chunk_without_choices_and_only_on_request() {
    let stack = Stack::start().await;
    let members = r#""stream":true,"stream_options":{"include_usage":true}"#;
    let response = post(stack.address, chat(members)).await;
    let text = settled(&response);
    let usage = concat!(
        r#""choices":[],"usage":{"prompt_tokens":10,"completion_tokens":2,"total_tokens":12,"#,
        r#""prompt_tokens_details":{"cached_tokens":3}}}"#,
        "\n\ndata: [DONE]\n\n"
    );
    assert!(text.ends_with(usage), "{text}");
    assert_eq!(text.matches("usage").count(), 1);
    assert_eq!(text.matches("finish_reason\":\"stop\"").count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn in_one_piece_it_is_the_same_text() {
    let stack = Stack::start().await;
    let response = post(stack.address, chat("")).await;
    assert_eq!(response.status, 200);
    assert_eq!(response.header("content-type"), Some("application/json"));
    let json = response.json();
    assert_eq!(json["object"], "chat.completion");
    assert_eq!(json["model"], MODEL);
    assert_eq!(json["choices"][0]["message"]["role"], "assistant");
    assert_eq!(json["choices"][0]["message"]["content"], "Hello");
    assert_eq!(json["choices"][0]["finish_reason"], "stop");
    assert_eq!(json["usage"]["total_tokens"], 12);
    assert!(json.get("error").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_chunk_goes_out_at_acceptance() {
    let stack = Stack::start().await;
    stack.engine.will(vec![Step::Accept(Tier::Promised), Step::Hang]);
    let mut connection = Connection::open(stack.address).await;
    connection.send(chat(r#""stream":true"#)).await;
    assert_eq!(connection.head().await.0, 200);
    let first = connection.chunk().await.expect("a chunk");
    assert!(String::from_utf8_lossy(&first).contains(r#"{"role":"assistant","content":""}"#));
}

#[tokio::test(flavor = "multi_thread")]
async fn silence_is_filled_with_comments() {
    let stack = Stack::with(&["--sse-heartbeat-ms", "20"]).await;
    stack.engine.will(vec![Step::Accept(Tier::Promised), Step::Hang]);
    let mut connection = Connection::open(stack.address).await;
    connection.send(chat(r#""stream":true"#)).await;
    connection.head().await;
    connection.chunk().await.expect("the role");
    for _ in 0..3 {
        assert_eq!(connection.chunk().await.as_deref(), Some(b": keep-alive\n\n".as_slice()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn length_is_told_as_length() {
    let stack = Stack::start().await;
    stack.engine.will(vec![
        Step::Accept(Tier::Promised),
        Step::Token("x"),
        Step::Finish(FinishReason::Length),
    ]);
    let whole = post(stack.address, chat("")).await.json();
    assert_eq!(whole["choices"][0]["finish_reason"], "length");
    let stream = post(stack.address, chat(r#""stream":true"#)).await.text();
    assert!(stream.contains(r#""finish_reason":"length""#), "{stream}");
}

/// Every way in which an answer can fail half-way, and the code that tells it.
fn failures() -> Vec<(Vec<Step>, &'static str, u16)> {
    let finish = |reason| vec![Step::Finish(reason)];
    vec![
        (vec![], "engine_lost", 503),
        (vec![Step::Fail(Status::internal("secret"))], "internal_error", 500),
        (vec![Step::Fail(Status::unavailable("gone"))], "engine_lost", 503),
        (vec![Step::Accept(Tier::Promised)], "internal_error", 500),
        (finish(FinishReason::Unspecified), "internal_error", 500),
        (finish(FinishReason::Cancelled), "cancelled", 503),
        (finish(FinishReason::Deadline), "deadline_exceeded", 504),
        (finish(FinishReason::Evicted), "evicted", 503),
        (finish(FinishReason::Shutdown), "engine_unavailable", 503),
        (finish(FinishReason::Failed), "engine_failed", 500),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_after_the_first_byte_is_one_event_and_no_done() {
    let stack = Stack::start().await;
    for (last, code, _) in failures() {
        let mut steps = vec![Step::Accept(Tier::Promised), Step::Token("x")];
        steps.extend(last);
        stack.engine.will(steps);
        let response = post(stack.address, chat(r#""stream":true"#)).await;
        let text = response.text();
        assert_eq!(response.status, 200);
        assert!(!text.contains("[DONE]") && !text.contains(r#""finish_reason":""#), "{text}");
        assert_eq!(text.matches("\"error\"").count(), 1, "{text}");
        let last = text.trim_end().lines().last().expect("a record");
        let error: serde_json::Value = serde_json::from_str(&last["data: ".len()..]).expect("JSON");
        assert_eq!(error["error"]["code"], code, "{text}");
        assert!(error["error"]["message"].is_string() && error["error"]["type"].is_string());
        assert!(!text.contains("secret"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_before_the_first_byte_has_a_status() {
    let stack = Stack::start().await;
    for (last, code, status) in failures() {
        let mut steps = vec![Step::Accept(Tier::Promised), Step::Token("x")];
        steps.extend(last);
        stack.engine.will(steps);
        let response = post(stack.address, chat("")).await;
        assert_eq!(response.status, status, "{response:?}");
        assert_eq!(response.error().2.as_deref(), Some(code));
    }
}
