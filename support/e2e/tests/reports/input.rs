//! Requests that brought other servers down.

use std::{collections::BTreeSet, time::Duration};

use e2e::{Chat, Spec, Stack};
use futures_util::{StreamExt as _, future::join_all, stream};
use serde_json::{Value, json};

/// A refusal of something absurd is cheap; the bound is for machines that do something else too.
const AT_ONCE: Duration = Duration::from_secs(5);

fn small() -> Spec {
    Spec::mock(100, 10).engine(&["--context-tokens", "512"])
}

async fn is_alive(stack: &Stack) {
    let answer = Chat::new("still there?", 4).ask(stack, 0).await;
    assert!(answer.is_complete(), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn absurd_caps_are_lowered_or_refused() {
    let stack = Stack::start(small()).await;
    // The mock takes four bytes for a token.
    let nearly_all = "x".repeat(4 * 480);
    for cap in ["32767", "2147483648", "9223372036854775807", "18446744073709551616"] {
        let cap: Value = serde_json::from_str(cap).expect("a number");
        let answer = Chat::new(&nearly_all, 1).with("max_tokens", cap.clone()).ask(&stack, 0).await;
        assert!(answer.is_complete(), "{cap}: {answer:?}");
        let usage = answer.usage.expect("usage");
        assert_eq!(usage["total_tokens"], 512, "{cap}: {usage}");
    }
    for cap in [json!(-1), json!(0), json!(0.5)] {
        let answer = Chat::new(&nearly_all, 1).with("max_tokens", cap.clone()).ask(&stack, 0).await;
        let error = answer.error.expect("an error");
        assert_eq!((answer.status, &error["param"]), (400, &json!("max_tokens")), "{cap}");
    }
    is_alive(&stack).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn prompts_longer_than_the_context_are_refused_and_do_no_harm() {
    let stack = Stack::start(small()).await;
    let chats = [4 * 518, 4 * 50 * 512].into_iter().flat_map(|bytes| {
        let chat = Chat::new(&"x".repeat(bytes), 4);
        [chat.clone(), chat.whole()]
    });
    // Each twice, all at once.
    let chats: Vec<Chat> = chats.flat_map(|chat| [chat.clone(), chat]).collect();
    for answer in join_all(chats.iter().map(|chat| chat.ask(&stack, 0))).await {
        let error = answer.error.expect("an error");
        assert_eq!((answer.status, &error["code"]), (400, &json!("context_length_exceeded")));
        assert!(answer.took < AT_ONCE, "{:?}", answer.took);
    }
    is_alive(&stack).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn made_up_models_make_no_series() {
    let stack = Stack::start(small()).await;
    Chat::new("", 1).with("model", json!("none")).ask(&stack, 0).await;
    // The first look makes a series of its own.
    series(&stack).await;
    let before = series(&stack).await;
    let asks = (0..1_000).map(async |number| {
        let chat = Chat::new("", 1).with("model", json!(format!("model-{number}")));
        assert_eq!(chat.ask(&stack, 0).await.status, 404);
    });
    stream::iter(asks).buffer_unordered(8).count().await;
    assert_eq!(series(&stack).await, before);
}

/// The names and labels of everything that the gateway counts.
async fn series(stack: &Stack) -> BTreeSet<String> {
    let response = stack.http().get(stack.url(0, "/metrics")).send().await.expect("metrics");
    let text = response.text().await.expect("text");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| Some(line.rsplit_once(' ')?.0.to_owned())).collect()
}
