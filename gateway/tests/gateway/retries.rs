//! A second engine, for when the first is lost.

use proto::v1::{FinishReason, Tier};
use tonic::Status;

use crate::support::{
    Connection, EngineSaw, FakeAdmission, FakeEngine, Preparing, Stack, Step, Verdict, admitted,
    answer, chat, post, request,
};

/// A stack whose first engine is `stack.engine`, and the second.
async fn two_engines() -> (Stack, FakeEngine) {
    two_engines_with(&[]).await
}

async fn two_engines_with(flags: &[&str]) -> (Stack, FakeEngine) {
    let second = FakeEngine::start();
    second.will(answer(&["second"]));
    let at = second.address().to_string();
    let flags = [&["--engine", &at], flags].concat();
    let stack = Stack::with_upstreams(&flags, FakeEngine::start(), FakeAdmission::start());
    let up = |body: &str| body.contains(r#""admission":{"state":"ok"}"#);
    stack.wait_until(|body| body.contains(r#""status":"ready""#) && up(body)).await;
    tokio::join!(stack.engine.is_known(), second.is_known());
    (stack, second)
}

fn content(response: &crate::support::Response) -> String {
    response.json()["choices"][0]["message"]["content"].as_str().expect("text").to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_lost_while_it_prepares() {
    let (stack, second) = two_engines().await;
    stack.engine.prepares(Preparing::Hang);
    let mut connection = Connection::open(stack.address).await;
    let body = r#"{"messages":[{"role":"user","content":"hi"}]}"#;
    let hurried = request("/v1/chat/completions", "x-slo-e2e-ms: 50000\r\n", body);
    connection.send(hurried).await;
    let first = stack.engine.saw_prepare().await;
    stack.engine.kill();
    let response = connection.read(false).await;
    assert_eq!((response.status, content(&response)), (200, "second".into()));
    assert_eq!(second.saw_prepare().await.request_id, first.request_id);
    let decide = stack.admission.saw_decide().await;
    assert_eq!((decide.request_id, decide.attempt), (first.request_id, 1));
    let left = decide.budget.and_then(|it| it.e2e_us).expect("a budget");
    assert!(left < 50_000_000, "{left}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_lost_before_it_accepts_and_before_its_first_text() {
    let (stack, second) = two_engines().await;
    let gone = || Step::Fail(Status::unavailable("gone"));
    for (steps, members) in [
        (vec![gone()], ""),
        (vec![gone()], "\"n\":2"),
        (vec![Step::Accept(Tier::Promised), gone()], ""),
        (vec![Step::Accept(Tier::Promised), Step::Token(""), gone()], ""),
        (vec![Step::Accept(Tier::Promised)], ""),
        (vec![Step::Accept(Tier::Promised), Step::Finish(FinishReason::Shutdown)], ""),
    ] {
        stack.engine.is_known().await;
        stack.engine.will(steps.clone());
        let response = post(stack.address, chat(members)).await;
        assert_eq!(response.status, 200, "{steps:?}: {response:?}");
        assert_eq!(content(&response), "second");
        while !matches!(stack.engine.saw().await, EngineSaw::Generate(_)) {}
        // What was granted to the first try goes on running for the second.
        let again = loop {
            let decide = stack.admission.saw_decide().await;
            if decide.attempt == 1 {
                break decide;
            }
            assert_eq!(decide.budget.and_then(|it| it.e2e_us), None);
        };
        assert!(again.budget.and_then(|it| it.e2e_us).is_some_and(|left| left < 60_000_000));
        while !matches!(second.saw().await, EngineSaw::Generate(_)) {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_goes_on_in_another_engine_until_its_first_text() {
    let (stack, _second) = two_engines().await;
    // What was promised in the head must hold for the second engine as well.
    let mut none = admitted();
    (none.bound_us, none.confidence) = (None, None);
    stack.admission.will(Verdict::Admit(none));
    stack.engine.will(vec![Step::Accept(Tier::Promised)]);
    let text = post(stack.address, chat("\"stream\":true")).await.text();
    assert!(text.contains(r#"{"content":"second"}"#) && text.ends_with("[DONE]\n\n"), "{text}");
    assert_eq!(text.matches("\"role\"").count(), 1);
    stack.engine.will(vec![Step::Accept(Tier::Promised), Step::Token("first")]);
    let text = post(stack.address, chat("\"stream\":true")).await.text();
    assert!(text.contains(r#""code":"engine_lost""#) && !text.contains("second"), "{text}");
    assert!(!text.contains("[DONE]"));
    // One choice has spoken: nothing is made again.
    let spoken = vec![Step::Accept(Tier::Promised), Step::Token("first"), Step::Hang];
    stack.engine.will_in_turn(vec![spoken, vec![Step::Accept(Tier::Promised), Step::Token("x")]]);
    let text = post(stack.address, chat("\"n\":2,\"stream\":true")).await.text();
    assert!(text.contains(r#""code":"engine_lost""#) && !text.contains("second"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_goes_on_only_as_what_it_said_it_was() {
    let (stack, second) = two_engines().await;
    stack.admission.will(Verdict::Admit(proto::v1::Admitted {
        bound_us: None,
        confidence: None,
        ..admitted()
    }));
    second.says(|info| info.model.as_mut().expect("a model").sha256 = "another".into());
    second.is_known().await;
    stack.engine.will(vec![Step::Accept(Tier::Promised)]);
    let text = post(stack.address, chat("\"stream\":true")).await.text();
    assert!(text.contains(r#""code":"engine_lost""#) && !text.contains("second"), "{text}");
    // Where nothing was said yet, the answer names the one that gave it.
    let json = post(stack.address, chat("")).await.json();
    assert_eq!(json["system_fingerprint"], "fp_0.1.0_another");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_is_stuck_is_left_for_another_before_the_first_text() {
    let (stack, _second) = two_engines().await;
    stack.engine.will(vec![Step::Accept(Tier::Promised), Step::Hang]);
    let mut connection = Connection::open(stack.address).await;
    connection.send(chat("")).await;
    stack.engine.saw_prepare().await;
    stack.engine.saw_generate().await;
    stack.engine.says(|info| info.stuck = true);
    let response = connection.read(false).await;
    assert_eq!((response.status, content(&response)), (200, "second".into()));
    stack.engine.saw_drop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_try_has_the_places_of_the_first() {
    let (stack, _second) = two_engines_with(&["--fallback-requests-max", "1"]).await;
    stack.admission.kill();
    stack.engine.will(vec![Step::Accept(Tier::BestEffort)]);
    for members in ["", "\"stream\":true"] {
        stack.engine.is_known().await;
        let response = post(stack.address, chat(members)).await;
        assert_eq!(response.status, 200, "{response:?}");
        assert!(response.text().contains("second"), "{response:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_promise_that_was_told_is_not_weakened() {
    let (stack, second) = two_engines().await;
    stack.engine.will(vec![Step::Accept(Tier::Promised)]);
    let mut unpromised = answer(&["x"]);
    unpromised[0] = Step::Accept(Tier::BestEffort);
    second.will(unpromised);
    let response = post(stack.address, chat("\"stream\":true")).await;
    assert_eq!(response.header("x-slo-tier"), Some("promised"));
    let text = response.text();
    assert!(text.contains(r#""code":"engine_lost""#) && !text.contains("[DONE]"), "{text}");
    // Where nothing was told yet, what is told is what the second one promises.
    let response = post(stack.address, chat("")).await;
    assert_eq!((response.status, response.header("x-slo-tier")), (200, Some("best-effort")));
}

#[tokio::test(flavor = "multi_thread")]
async fn there_is_no_third_try_and_no_other_reason() {
    let (stack, second) = two_engines().await;
    let gone = vec![Step::Fail(Status::unavailable("gone"))];
    stack.engine.will(gone.clone());
    second.will(gone);
    let response = post(stack.address, chat("")).await;
    assert_eq!(response.status, 503);
    assert_eq!(response.error().2.as_deref(), Some("engine_unavailable"));
    tokio::join!(stack.engine.is_known(), second.is_known());
    second.will(answer(&["second"]));
    for status in [Status::internal("a bug"), Status::resource_exhausted("full")] {
        stack.engine.will(vec![Step::Fail(status)]);
        let response = post(stack.address, chat("")).await;
        assert!([500, 503].contains(&response.status), "{response:?}");
    }
}
