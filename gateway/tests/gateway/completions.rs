//! `/v1/completions`: what differs from chat.

use proto::v1::{Tier, TokenIds, prepare_request::Input};
use tonic::Status;

use crate::{
    choices::records,
    support::{
        CONTEXT_TOKENS, Connection, MODEL, Preparing, Stack, Step, answer, completion, post,
        request,
    },
};

#[tokio::test(flavor = "multi_thread")]
async fn a_completion_in_one_piece() {
    let stack = Stack::start().await;
    let response = post(stack.address, completion("")).await;
    assert_eq!(response.status, 200);
    assert_eq!(response.header("content-type"), Some("application/json"));
    assert_eq!(response.header("x-slo-tier"), Some("promised"));
    let json = response.json();
    let id = format!("cmpl-{}", response.header("x-request-id").expect("an id"));
    assert_eq!(json["id"], id);
    assert_eq!((&json["object"], &json["model"]), (&"text_completion".into(), &MODEL.into()));
    assert_eq!(
        json["choices"],
        serde_json::json!([{"text": "Hello", "index": 0, "logprobs": null, "finish_reason": "stop"}])
    );
    assert_eq!(json["usage"]["total_tokens"], 12);
    assert_eq!(json["usage"]["prompt_tokens_details"]["cached_tokens"], 3);
    assert!(json.get("error").is_none());
    assert_eq!(stack.engine.saw_prepare().await.input, Some(Input::Text("Say".into())));
    // OpenAI's default, which is far shorter than that of chat.
    assert_eq!(stack.engine.saw_generate().await.max_tokens, 16);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_streamed_completion() {
    let stack = Stack::start().await;
    let members = r#""stream":true,"stream_options":{"include_usage":true}"#;
    let response = post(stack.address, completion(members)).await;
    assert_eq!(response.header("content-type"), Some("text/event-stream"));
    let records = records(&response.text());
    let told: Vec<_> = records
        .iter()
        .map(|it| (it["choices"][0]["text"].as_str(), it["choices"][0]["finish_reason"].as_str()))
        .collect();
    assert_eq!(
        told,
        [(Some("Hel"), None), (Some("lo"), None), (Some(""), Some("stop")), (None, None)]
    );
    for record in &records {
        assert_eq!(record["object"], "text_completion");
        assert!(record["choices"].is_array());
    }
    assert_eq!(records[3]["usage"]["total_tokens"], 12);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_head_of_a_stream_goes_out_at_acceptance() {
    let stack = Stack::start().await;
    stack.engine.will(vec![Step::Accept(Tier::Promised), Step::Hang]);
    let mut connection = Connection::open(stack.address).await;
    connection.send(completion(r#""stream":true"#)).await;
    let head = tokio::time::timeout(crate::support::LONG, connection.head()).await;
    assert_eq!(head.expect("no head").0, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_echo_comes_first() {
    let stack = Stack::start().await;
    let whole = post(stack.address, completion(r#""echo":true"#)).await.json();
    assert_eq!(whole["choices"][0]["text"], "SayHello");
    let response = post(stack.address, completion(r#""echo":true,"stream":true"#)).await;
    let text: String = records(&response.text())
        .iter()
        .map(|it| it["choices"][0]["text"].as_str().expect("text"))
        .collect();
    assert_eq!(text, "SayHello");
}

#[tokio::test(flavor = "multi_thread")]
async fn prompts_may_be_token_ids() {
    let stack = Stack::start().await;
    let ids = |ids: &[u32]| Some(Input::TokenIds(TokenIds { ids: ids.to_vec() }));
    assert_eq!(post(stack.address, completion(r#""prompt":[5,6]"#)).await.status, 200);
    assert_eq!(stack.engine.saw_prepare().await.input, ids(&[5, 6]));
    let mut status = Status::invalid_argument("token_ids: 7 is not in the vocabulary of 5");
    status.metadata_mut().insert("param", "token_ids".parse().expect("text"));
    stack.engine.prepares(Preparing::Fail(status));
    for (prompt, param) in [("[7]", "prompt"), ("[[7]]", "prompt"), ("[[7],[7]]", "prompt[")] {
        let response = post(stack.address, completion(&format!("\"prompt\":{prompt}"))).await;
        assert_eq!(response.status, 400);
        assert!(response.error().1.is_some_and(|it| it.starts_with(param)), "{response:?}");
        assert!(response.text().contains(": 7 is not in the vocabulary"));
        assert!(!response.text().contains("token_ids"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_beyond_the_context_is_told_in_known_words() {
    let stack = Stack::start().await;
    stack.engine.prepares(Preparing::Tokens(CONTEXT_TOKENS));
    for members in ["", r#""stream":true"#] {
        let response = post(stack.address, completion(members)).await;
        assert_eq!(response.status, 400);
        let (_, param, code) = response.error();
        assert_eq!(param.as_deref(), Some("prompt"));
        assert_eq!(code.as_deref(), Some("context_length_exceeded"));
        assert!(response.text().contains("However, you requested 1016 tokens (1000 in the prompt"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn chat_and_completions_share_everything_else() {
    let stack = Stack::start().await;
    stack.engine.will(answer(&["x"]));
    let slo = "x-slo-e2e-ms: 4000\r\nx-slo-mode: best-effort\r\n";
    let body = r#"{"prompt":"a","max_completion_tokens":7,"stop":"y","user":"me","suffix":""}"#;
    assert_eq!(post(stack.address, request("/v1/completions", slo, body)).await.status, 200);
    let decide = stack.admission.saw_decide().await;
    assert!(decide.accept_best_effort && decide.budget.is_some_and(|it| it.e2e_us.is_some()));
    stack.engine.saw_prepare().await;
    let generate = stack.engine.saw_generate().await;
    assert_eq!((generate.max_tokens, generate.stop), (7, vec!["y".to_owned()]));
    let response = post(stack.address, completion(r#""model":"gpt-4""#)).await;
    assert_eq!((response.status, response.error().2.as_deref()), (404, Some("model_not_found")));
    stack.engine.will(vec![Step::Accept(Tier::Promised), Step::Token("x")]);
    let response = post(stack.address, completion(r#""stream":true"#)).await;
    let text = response.text();
    assert!(text.contains(r#"data: {"error":{"#) && !text.contains("[DONE]"), "{text}");
}
