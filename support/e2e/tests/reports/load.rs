//! Many at once, or one after a long time.

use std::time::Duration;

use e2e::{Answer, Chat, Spec, Stack, eventually};
use futures_util::{StreamExt as _, future::join_all, stream};
use serde_json::json;

/// On any machine.
const SOON: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread")]
async fn two_thousand_mixed_requests_and_none_gets_stuck() {
    let spec = Spec::mock(200, 20).engine(&["--slots", "16", "--context-tokens", "512"]);
    let stack = Stack::start(spec.admission(&["--limit-requests", "64"])).await;
    let asks = (0..2_000_usize).map(async |number| {
        let content = "word ".repeat(number * 7 % 300);
        let chat = Chat::new(&content, u32::try_from(1 + number * 13 % 60).expect("small"));
        let chat = if number % 3 == 0 { chat.whole() } else { chat };
        let chat = if number % 5 == 0 { chat.with("stop", json!(["ba", "ze"])) } else { chat };
        chat.header("x-slo-patience-ms", 10_000).ask(&stack, 0).await
    });
    let answers: Vec<Answer> = stream::iter(asks).buffer_unordered(64).collect().await;
    let complete = answers.iter().filter(|it| it.is_complete()).count();
    let longest = answers.iter().map(|it| it.took).max();
    assert_eq!(complete, 2_000, "{:?}", answers.iter().find(|it| !it.is_complete()));
    assert!(longest < Some(Duration::from_secs(20)), "{longest:?}");
    assert!(eventually(Duration::from_secs(5), async || stack.is_idle().await).await);
}

/// Each slot has all of its context: filling them all at once takes nothing from anybody.
#[tokio::test(flavor = "multi_thread")]
async fn full_contexts_beside_each_other() {
    let spec = Spec::mock(500, 20).engine(&["--slots", "4", "--context-tokens", "512"]);
    let stack = Stack::start(spec).await;
    let chat = Chat::new(&"x".repeat(4 * 460), 512).header("x-slo-patience-ms", 10_000);
    let answers = join_all((0..12).map(|_| chat.ask(&stack, 0))).await;
    let complete = answers.iter().filter(|it| it.is_complete()).count();
    let refused = answers.iter().filter(|it| it.status == 503 && it.retry_after.is_some()).count();
    assert!(complete >= 4 && complete + refused == 12, "{answers:?}");
    let failed = stack.engine_metric("cadence_engine_finished_total{reason=\"failed\"}").await;
    assert_eq!(failed, 0.0);
}

/// No bound, and no estimate, locks the door of an empty house.
#[tokio::test(flavor = "multi_thread")]
async fn an_idle_system_always_lets_one_through() {
    let bounds = ["--limit-requests", "1", "--limit-tokens", "1", "--limit-kv-blocks", "1"];
    let spec = Spec::mock(20_000, 5_000).admission(&bounds).admission(&["--patience-ms", "0"]);
    let stack = Stack::start(spec).await;
    let chat = Chat::new("let me in", 20);
    let crowd = join_all((0..8).map(|_| chat.ask(&stack, 0))).await;
    assert!(crowd.iter().any(Answer::is_complete), "{crowd:?}");
    assert!(crowd.iter().any(|it| it.status == 503), "{crowd:?}");
    assert!(eventually(Duration::from_secs(5), async || stack.is_idle().await).await);
    let alone = chat.ask(&stack, 0).await;
    assert!(alone.is_complete(), "{alone:?}");
}

/// There is another engine, watched and well. Nobody begins there what has begun elsewhere, though what has
/// not said anything yet does.
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_is_never_begun_again_on_another_engine() {
    let spec = Spec::mock(5_000, 100).engine(&["--mock-prefill-us", "5000"]).spares(1);
    let mut stack = Stack::start(spec).await;
    let chat = Chat::new("on and on", 400);
    let expected = chat.clone().with("max_tokens", json!(100)).ask(&stack, 0).await.text;
    let told_twenty =
        async || stack.engine_metric("cadence_engine_generated_tokens_total").await >= 120.0;
    let cut = killed_once(told_twenty, &stack, &chat).await;
    assert!(cut.is_broken(), "{cut:?}");
    assert!(!cut.text.is_empty() && expected.starts_with(&cut.text), "{cut:?}");
    assert_eq!((taken_by_spare(&stack).await, retries(&stack).await), (0.0, 0.0));

    assert!(eventually(SOON, async || stack.watches(1).await).await);
    let short = Chat::new("and you?", 4);
    assert!(short.ask(&stack, 0).await.is_complete(), "the other engine does not serve");
    assert_eq!(taken_by_spare(&stack).await, 1.0);
    stack.engine.restart();
    let is_back = async || short.ask(&stack, 0).await.is_complete() && taken(&stack).await > 0.0;
    assert!(eventually(SOON, async || stack.watches(2).await && is_back().await).await);

    let before = (taken_by_spare(&stack).await, retries(&stack).await);
    let slow = Chat::new(&"word".repeat(400), 20);
    let reads_prompt = async || stack.engine_metric("cadence_engine_running").await > 0.0;
    let whole = killed_once(reads_prompt, &stack, &slow).await;
    let after = (taken_by_spare(&stack).await, retries(&stack).await);
    assert_eq!(after, (before.0 + 1.0, before.1 + 1.0), "{whole:?}");
    assert!(whole.is_complete(), "{whole:?}");
    assert_eq!(whole.text, slow.ask(&stack, 0).await.text);
    let alone = stack.gateway_metric(0, "cadence_gateway_fallbacks_total").await;
    assert_eq!(alone, 0.0, "admission let all of them in");
}

/// What comes of a chat whose engine is killed at some moment of it.
async fn killed_once(moment: impl AsyncFn() -> bool, stack: &Stack, chat: &Chat) -> Answer {
    let kill = async {
        assert!(eventually(SOON, moment).await, "the moment does not come");
        stack.engine.kill_now();
    };
    tokio::join!(chat.ask(stack, 0), kill).0
}

async fn taken(stack: &Stack) -> f64 {
    stack.engine_metric("cadence_engine_accepted_total").await
}

async fn taken_by_spare(stack: &Stack) -> f64 {
    stack.spare_metric(0, "cadence_engine_accepted_total").await
}

async fn retries(stack: &Stack) -> f64 {
    stack.gateway_metric(0, "cadence_gateway_engine_retries_total").await
}
