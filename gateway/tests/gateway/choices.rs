//! Several choices for one prompt.

use proto::v1::{
    FinishReason, RefusalReason, Refused, Tier, generate_request::Prompt, prepare_request::Input,
};
use serde_json::Value;
use tonic::Status;

use crate::support::{
    AdmissionSaw, Connection, EngineSaw, Stack, Step, Verdict, admitted, answer, chat, completion,
    post, request,
};

/// The records of a stream; the last is `[DONE]` and left out.
#[track_caller]
pub(crate) fn records(text: &str) -> Vec<Value> {
    let text = text.strip_suffix("data: [DONE]\n\n").expect("a clean end");
    let records = text.split_terminator("\n\n").filter(|record| !record.starts_with(':'));
    let json = |record: &str| {
        serde_json::from_str(record.strip_prefix("data: ").expect("data")).expect("JSON")
    };
    records.map(json).collect()
}

/// Reads the ends of two answers that were given in any order.
fn two_answers() -> Vec<Vec<Step>> {
    vec![answer(&["a", "b"]), {
        let mut steps = answer(&["c"]);
        *steps.last_mut().expect("an end") = Step::Finish(FinishReason::Length);
        steps
    }]
}

#[tokio::test(flavor = "multi_thread")]
async fn choices_have_their_own_index_and_end_and_share_the_usage() {
    let stack = Stack::start().await;
    stack.engine.will_in_turn(two_answers());
    let json = post(stack.address, chat("\"n\":2")).await.json();
    let choices = json["choices"].as_array().expect("choices");
    let mut told: Vec<_> = choices
        .iter()
        .map(|it| {
            let content = it["message"]["content"].as_str().expect("text");
            (content, it["finish_reason"].as_str().expect("an end"))
        })
        .collect();
    told.sort_unstable();
    assert_eq!(told, [("ab", "stop"), ("c", "length")]);
    assert_eq!((&choices[0]["index"], &choices[1]["index"]), (&0.into(), &1.into()));
    let usage = &json["usage"];
    assert_eq!(usage["prompt_tokens"], 10);
    assert_eq!((&usage["completion_tokens"], &usage["total_tokens"]), (&3.into(), &13.into()));
    assert_eq!(usage["prompt_tokens_details"]["cached_tokens"], 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_of_choices_has_one_end_each_and_one_done() {
    let stack = Stack::start().await;
    stack.engine.will_in_turn(two_answers());
    let members = r#""n":2,"stream":true,"stream_options":{"include_usage":true}"#;
    let response = post(stack.address, chat(members)).await;
    let text = response.text();
    assert_eq!(text.matches("[DONE]").count(), 1);
    let mut records = records(&text);
    let usage = records.pop().expect("a usage");
    assert_eq!(
        (&usage["choices"], &usage["usage"]["total_tokens"]),
        (&Value::Array(vec![]), &13.into())
    );
    for index in 0..2 {
        let of: Vec<_> = records.iter().filter(|it| it["choices"][0]["index"] == index).collect();
        assert_eq!(of[0]["choices"][0]["delta"]["role"], "assistant");
        let ends = of.iter().filter(|it| it["choices"][0]["finish_reason"].is_string());
        assert_eq!(ends.count(), 1, "{text}");
        assert!(of.last().is_some_and(|it| it["choices"][0]["finish_reason"].is_string()));
    }
    let ids: std::collections::BTreeSet<_> =
        records.iter().map(|it| it["id"].to_string()).collect();
    assert_eq!(ids.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_choice_is_a_request_of_its_own_for_one_preparation() {
    let stack = Stack::start().await;
    let response = post(stack.address, chat("\"n\":3,\"seed\":40")).await;
    assert_eq!(response.status, 200);
    let prepare = stack.engine.saw_prepare().await;
    assert!(prepare.return_token_ids);
    let mut generates = Vec::new();
    let mut decided = Vec::new();
    for _ in 0..3 {
        generates.push(stack.engine.saw_generate().await);
        decided.push(stack.admission.saw_decide().await.request_id);
    }
    generates.sort_by_key(|it| it.sampling.as_ref().and_then(|sampling| sampling.seed));
    let seeds = generates.iter().map(|it| it.sampling.as_ref().and_then(|sampling| sampling.seed));
    assert_eq!(seeds.collect::<Vec<_>>(), [Some(40), Some(41), Some(42)]);
    assert_eq!(generates[0].prompt, Some(Prompt::Prepared(true)));
    assert_eq!(generates[0].request_id, prepare.request_id);
    assert_eq!(response.header("x-request-id"), Some(prepare.request_id.as_str()));
    for other in &generates[1..] {
        let Some(Prompt::TokenIds(ids)) = &other.prompt else { panic!("{other:?}") };
        assert_eq!(ids.ids, (0..10).collect::<Vec<_>>());
    }
    let mut ids: Vec<_> = generates.into_iter().map(|it| it.request_id).collect();
    ids.sort_unstable();
    decided.sort_unstable();
    assert_eq!(ids, decided);
    ids.dedup();
    assert_eq!(ids.len(), 3);
    assert!(stack.engine.saw_nothing(), "one preparation is enough");
    // One choice costs what it always did.
    assert_eq!(post(stack.address, chat("")).await.status, 200);
    assert!(!stack.engine.saw_prepare().await.return_token_ids);
}

#[tokio::test(flavor = "multi_thread")]
async fn when_one_is_refused_none_runs() {
    let stack = Stack::start().await;
    let refused = Refused {
        reason: RefusalReason::Requests.into(),
        message: "8 of 8 requests are in the system".into(),
        retry_after_us: 2_000_000,
        ..Refused::default()
    };
    stack.engine.will(vec![Step::Hang]);
    stack.admission.will_in_turn(vec![Verdict::Admit(admitted()), Verdict::Refuse(refused)]);
    for members in ["\"n\":2", "\"n\":2,\"stream\":true"] {
        let response = post(stack.address, chat(members)).await;
        assert_eq!(response.status, 503);
        assert_eq!(response.error().2.as_deref(), Some("overloaded_requests"));
    }
    stack.engine.will(answer(&["x"]));
    stack.admission.will(Verdict::Admit(admitted()));
    assert_eq!(post(stack.address, chat("\"n\":2")).await.status, 200);
}

/// What is let in must not run, nor wait, while others of its request are not let in.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_runs_before_all_are_let_in_and_only_the_first_waits() {
    let stack = Stack::start().await;
    let body = r#"{"messages":[{"role":"user","content":"hi"}],"n":3}"#;
    let patient = request("/v1/chat/completions", "x-slo-patience-ms: 4000\r\n", body);
    let refused = Refused { reason: RefusalReason::Requests.into(), ..Refused::default() };
    let admit = || Verdict::Admit(admitted());
    stack.admission.will_in_turn(vec![admit(), admit(), Verdict::Refuse(refused)]);
    assert_eq!(post(stack.address, &patient).await.status, 503);
    let mut first = String::new();
    for patience in [4_000_000, 0, 0] {
        let decide = stack.admission.saw_decide().await;
        assert_eq!(decide.patience_us, Some(patience));
        first = if patience > 0 { decide.request_id } else { first };
    }
    assert_eq!(stack.engine.saw_prepare().await.request_id, first);
    assert!(stack.engine.saw_nothing(), "a choice ran alone");

    // One that has no place is not joined by its siblings.
    stack.admission.will(Verdict::Hang);
    let mut connection = Connection::open(stack.address).await;
    connection.send(&patient).await;
    stack.admission.saw_decide().await;
    stack.engine.saw_prepare().await;
    drop(connection);
    assert!(matches!(stack.admission.saw().await, AdmissionSaw::Dropped));
    assert!(stack.admission.saw_nothing() && stack.engine.saw_nothing());
}

/// The lease of the first one runs while the others are asked for.
#[tokio::test(flavor = "multi_thread")]
async fn the_others_are_not_waited_for_longer_than_the_first_can_wait() {
    let stack = Stack::with(&["--decide-timeout-ms", "60000"]).await;
    let brief = proto::v1::Admitted { lease_us: 100_000, ..admitted() };
    stack.admission.will_in_turn(vec![Verdict::Admit(brief), Verdict::Hang]);
    assert_eq!(post(stack.address, chat("\"n\":2")).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn when_one_fails_all_have_failed() {
    let stack = Stack::start().await;
    let hangs = vec![Step::Accept(Tier::Promised), Step::Token("x"), Step::Hang];
    let fails = vec![Step::Accept(Tier::Promised), Step::Finish(FinishReason::Failed)];
    stack.engine.will_in_turn(vec![hangs.clone(), fails.clone()]);
    let response = post(stack.address, chat("\"n\":2,\"stream\":true")).await;
    let text = response.text();
    assert!(text.contains(r#""code":"engine_failed""#) && !text.contains("[DONE]"), "{text}");
    saw_a_drop(&stack).await;
    stack.engine.will_in_turn(vec![hangs, fails]);
    assert_eq!(post(stack.address, chat("\"n\":2")).await.status, 500);
    saw_a_drop(&stack).await;
    stack.engine.will(vec![Step::Fail(Status::unavailable("draining"))]);
    assert_eq!(post(stack.address, chat("\"n\":2")).await.status, 503);
}

async fn saw_a_drop(stack: &Stack) {
    while !matches!(stack.engine.saw().await, EngineSaw::Dropped) {}
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_cancels_all() {
    let stack = Stack::start().await;
    stack.engine.will(vec![Step::Accept(Tier::Promised), Step::Token("x"), Step::Hang]);
    let mut connection = Connection::open(stack.address).await;
    connection.send(chat("\"n\":3,\"stream\":true")).await;
    assert_eq!(connection.head().await.0, 200);
    drop(connection);
    for _ in 0..3 {
        saw_a_drop(&stack).await;
    }
    stack.admission.will(Verdict::Hang);
    let mut connection = Connection::open(stack.address).await;
    connection.send(chat("\"n\":2")).await;
    for _ in 0..3 + 1 {
        stack.admission.saw_decide().await;
    }
    drop(connection);
    assert!(matches!(stack.admission.saw().await, AdmissionSaw::Dropped));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_response_promises_what_holds_for_all() {
    let stack = Stack::start().await;
    let longer = proto::v1::Admitted { bound_us: Some(3_000_000), ..admitted() };
    stack.admission.will_in_turn(vec![Verdict::Admit(longer), Verdict::Admit(admitted())]);
    let response = post(stack.address, chat("\"n\":2")).await;
    assert_eq!(response.header("x-slo-bound-ms"), Some("3000"));
    assert_eq!(response.header("x-slo-confidence"), Some("0.8"));
    let downgraded = vec![Step::Accept(Tier::BestEffort), Step::Finish(FinishReason::Stop)];
    stack.engine.will_in_turn(vec![answer(&["x"]), downgraded]);
    let response = post(stack.address, chat("\"n\":2")).await;
    assert_eq!(response.header("x-slo-tier"), Some("best-effort"));
    assert_eq!(response.header("x-slo-bound-ms"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn choices_of_several_prompts_stand_in_order() {
    let stack = Stack::with(&["--choices-max", "4"]).await;
    let body = r#""prompt":["p","q"],"n":2,"echo":true"#;
    let json = post(stack.address, completion(body)).await.json();
    let choices = json["choices"].as_array().expect("choices");
    let told: Vec<_> = choices.iter().map(|it| it["text"].as_str().expect("text")).collect();
    assert_eq!(told, ["pHello", "pHello", "qHello", "qHello"]);
    assert_eq!(json["usage"]["prompt_tokens"], 20);
    assert_eq!(json["usage"]["completion_tokens"], 8);
    let mut prompts = Vec::new();
    for _ in 0..6 {
        if let EngineSaw::Prepare(prepare) = stack.engine.saw().await {
            prompts.push(prepare.input);
        }
    }
    prompts.sort_by_key(|it| format!("{it:?}"));
    assert_eq!(prompts, [Some(Input::Text("p".into())), Some(Input::Text("q".into()))]);
    let response = post(stack.address, completion(r#""prompt":["p","q"],"n":3"#)).await;
    assert_eq!(response.status, 400);
    assert_eq!(response.error().1.as_deref(), Some("n"));
}
