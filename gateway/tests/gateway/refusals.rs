//! How a refusal sounds.

use proto::v1::{RefusalReason, Refused};
use tonic::Status;

use crate::support::{Preparing, Response, Stack, Step, Verdict, chat, post, request};

fn refused(reason: RefusalReason) -> Refused {
    Refused {
        reason: reason.into(),
        message: "8 of 8 requests are in the system".into(),
        retry_after_us: 2_500_000,
        ..Refused::default()
    }
}

/// The two headers that say when to come back, checked: seconds and milliseconds.
#[track_caller]
fn retry_after(response: &Response) -> (u64, u64) {
    let number = |name| response.header(name).and_then(|it| it.parse().ok()).expect("a number");
    let (secs, millis): (u64, u64) = (number("retry-after"), number("retry-after-ms"));
    assert!((1..=59).contains(&secs), "{secs}");
    assert!((1..=secs * 1_000).contains(&millis), "{millis}");
    (secs, millis)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_says_why_and_when_to_come_back() {
    let stack = Stack::start().await;
    for (reason, code) in [
        (RefusalReason::Requests, "overloaded_requests"),
        (RefusalReason::Tokens, "overloaded_tokens"),
        (RefusalReason::Kv, "overloaded_kv"),
        (RefusalReason::Slo, "slo_unattainable"),
        (RefusalReason::Draining, "draining"),
    ] {
        stack.admission.will(Verdict::Refuse(refused(reason)));
        for members in ["", "\"stream\":true"] {
            let response = post(stack.address, chat(members)).await;
            assert_eq!(response.status, 503);
            let (kind, _, told) = response.error();
            assert_eq!((kind.as_str(), told.as_deref()), ("overloaded_error", Some(code)));
            assert_eq!(retry_after(&response), (3, 2_500));
            assert_eq!(response.header("x-should-retry"), None);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_numbers_behind_a_refusal_are_told() {
    let stack = Stack::with(&["--overload-status", "429"]).await;
    let refusal = Refused {
        permanent: true,
        bound_us: Some(5_000_001),
        budget_us: Some(4_000_000),
        max_tokens_that_fit: Some(120),
        ..refused(RefusalReason::Slo)
    };
    stack.admission.will(Verdict::Refuse(refusal));
    let response = post(stack.address, chat("")).await;
    // No wait can help, so the status is one that nobody retries and no time to come back is told.
    assert_eq!(response.status, 400);
    assert_eq!(response.header("retry-after"), None);
    assert_eq!(response.header("x-should-retry"), Some("false"));
    let slo = &response.json()["error"]["slo"];
    assert_eq!(
        *slo,
        serde_json::json!({"bound_ms": 5_001, "budget_ms": 4_000, "max_tokens_that_fit": 120})
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_status_of_a_refusal_that_may_pass_is_a_setting() {
    for (setting, status) in [("429", 429), ("529", 529)] {
        let stack = Stack::with(&["--overload-status", setting]).await;
        stack.admission.will(Verdict::Refuse(refused(RefusalReason::Requests)));
        let response = post(stack.address, chat("")).await;
        assert_eq!((response.status, retry_after(&response)), (status, (3, 2_500)));
    }
}

/// A budget that has run out is named, with its own number, and waiting may help.
#[tokio::test(flavor = "multi_thread")]
async fn a_budget_that_ran_out_is_named() {
    let stack = Stack::start().await;
    let body = r#"{"messages":[{"role":"user","content":"hi"}]}"#;
    let ask = |header: &str| request("/v1/chat/completions", header, body);
    let ran_out = Refused {
        permanent: true,
        budget_us: Some(60_000_000),
        retry_after_us: 59_000_000,
        ..refused(RefusalReason::Slo)
    };
    stack.admission.will(Verdict::Refuse(ran_out));
    for (header, param, budget_ms) in [
        ("x-slo-ttft-ms: 1\r\n", "x-slo-ttft-ms", 1),
        ("x-llm-d-slo-ttft-ms: 1\r\n", "x-llm-d-slo-ttft-ms", 1),
        ("x-slo-ttft-ms: 1\r\nx-slo-e2e-ms: 50000\r\n", "x-slo-ttft-ms", 1),
        ("", "x-slo-e2e-ms", 60_000),
    ] {
        let response = post(stack.address, ask(header)).await;
        assert_eq!(response.status, 504, "{response:?}");
        let (kind, named, code) = response.error();
        assert_eq!((kind.as_str(), code.as_deref()), ("timeout_error", Some("deadline_exceeded")));
        assert_eq!(named.as_deref(), Some(param));
        assert_eq!(response.json()["error"]["slo"], serde_json::json!({ "budget_ms": budget_ms }));
        assert!((1..=3).contains(&retry_after(&response).0));
        assert_eq!(response.header("x-should-retry"), None);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_can_never_fit_is_a_wrong_request() {
    let stack = Stack::start().await;
    let refusal = Refused { permanent: true, ..refused(RefusalReason::Never) };
    stack.admission.will(Verdict::Refuse(refusal));
    let response = post(stack.address, chat("")).await;
    assert_eq!(response.status, 400);
    let (kind, _, code) = response.error();
    assert_eq!(
        (kind.as_str(), code.as_deref()),
        ("invalid_request_error", Some("exceeds_capacity"))
    );
    assert_eq!(response.header("retry-after"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn full_queues_are_503_with_the_engine_s_own_wait() {
    let stack = Stack::start().await;
    let mut full = Status::resource_exhausted("32 of 32 are waiting");
    full.metadata_mut().insert("retry-after-us", "7000000".parse().expect("text"));
    stack.engine.prepares(Preparing::Fail(full.clone()));
    let response = post(stack.address, chat("")).await;
    assert_eq!((response.status, retry_after(&response)), (503, (7, 7_000)));
    stack.engine.prepares(Preparing::Tokens(10));
    stack.engine.will(vec![Step::Fail(full)]);
    let response = post(stack.address, chat("\"stream\":true")).await;
    assert_eq!((response.status, retry_after(&response)), (503, (7, 7_000)));
    assert_eq!(response.error().2.as_deref(), Some("engine_busy"));
    stack.admission.will(Verdict::Fail(Status::resource_exhausted("mailbox full")));
    let mut waits = std::collections::BTreeSet::new();
    for _ in 0..8 {
        let response = post(stack.address, chat("")).await;
        assert_eq!(response.status, 503);
        waits.insert(retry_after(&response).1);
    }
    assert!(waits.len() > 1, "all are sent back at once: {waits:?}");
}
