//! Clients that leave and come again.

use std::time::Duration;

use e2e::{Chat, Spec, Stack, eventually};
use futures_util::{StreamExt as _, future::join_all};

const GENERATED: &str = "cadence_engine_generated_tokens_total";

/// Sends a chat, and leaves after so many events of its stream.
async fn leave_after(events: usize, chat: &Chat, stack: &Stack) {
    let mut request = stack.http().post(stack.url(0, "/v1/chat/completions")).json(&chat.body);
    for (name, value) in &chat.headers {
        request = request.header(*name, value);
    }
    let response = request.send().await.expect("an answer");
    assert_eq!(response.status(), 200);
    let mut bytes = response.bytes_stream();
    let mut seen = 0;
    while seen < events {
        let chunk = bytes.next().await.expect("more events").expect("bytes");
        seen += chunk.windows(2).filter(|pair| pair == b"\n\n").count();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_leaves_after_five_tokens_is_not_answered_to_the_cap() {
    let stack = Stack::start(Spec::mock(5_000, 100).engine(&["--context-tokens", "4096"])).await;
    let chat = Chat::new("on and on", 2_000);
    join_all((0..20).map(|_| leave_after(5, &chat, &stack))).await;
    assert!(eventually(Duration::from_secs(5), async || stack.is_idle().await).await);
    let generated = stack.engine_metric(GENERATED).await;
    // Twenty to the cap would be 40,000.
    assert!(generated < 4_000.0, "{generated} tokens for nobody");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_was_left_gives_its_place_back() {
    let stack = Stack::start(Spec::mock(5_000, 100).admission(&["--limit-requests", "1"])).await;
    for _ in 0..10 {
        leave_after(3, &Chat::new("on and on", 2_000), &stack).await;
        let next = Chat::new("my turn", 2).ask(&stack, 0).await;
        assert!(next.is_complete(), "{next:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_that_is_sent_again_the_moment_it_was_dropped_is_another_request() {
    let stack = Stack::start(Spec::mock(1_000, 10)).await;
    let chat = |tokens| Chat::new("mine", tokens).header("x-request-id", "always-the-same");
    for number in 0..200 {
        // Also at the very end, where the abort races with completion.
        leave_after(1 + number % 4, &chat(3), &stack).await;
        let again = chat(3).ask(&stack, 0).await;
        assert!(again.is_complete(), "{number}: {again:?}");
    }
    assert!(eventually(Duration::from_secs(5), async || stack.is_idle().await).await);
}
