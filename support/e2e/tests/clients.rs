//! Clients that leave, and clients that are too many.

use std::time::Duration;

use e2e::{Chat, Spec, Stack, eventually};
use futures_util::future::join_all;

/// 200 clients leave at moments spread over the life of a request: queued, in prefill, decoding, streamed
/// and not.
#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_clients_leave_at_any_moment() {
    let slow_prefill = ["--mock-prefill-us", "400", "--slots", "8"];
    let spec = Spec::mock(2_000, 500).engine(&slow_prefill);
    let spec = spec.admission(&[
        "--limit-requests",
        "64",
        "--limit-tokens",
        "100000",
        "--limit-kv-blocks",
        "100000",
    ]);
    let stack = Stack::start(spec).await;
    let client = async |number: u64| {
        // A fixed scatter: every run leaves at the same moments, 2 to 900 ms after sending.
        let patience = Duration::from_millis(2 + number * 7_919 % 899);
        tokio::time::sleep(Duration::from_millis(number * 104_729 % 700)).await;
        let content = "words ".repeat(30 + usize::try_from(number % 5).expect("small") * 60);
        let chat = Chat::new(&content, 600);
        let chat = if number.is_multiple_of(2) { chat } else { chat.whole() };
        tokio::time::timeout(patience, chat.ask(&stack, 0)).await.is_err()
    };
    let left = join_all((0..200).map(client)).await.into_iter().filter(|left| *left).count();
    assert!(left > 100, "only {left} clients left in the middle");
    assert!(
        eventually(Duration::from_secs(2), async || stack.is_idle().await).await,
        "something is still held 2 s after the last client left"
    );
    let alive = Chat::new("alive?", 4).ask(&stack, 0).await;
    assert!(alive.is_complete(), "{alive:?}");
    assert_eq!(stack.engine_metric("cadence_engine_finished_total{reason=\"failed\"}").await, 0.0);
    assert!(
        stack.engine_metric("cadence_engine_finished_total{reason=\"cancelled\"}").await > 50.0
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn two_gateways_keep_the_limit_in_sum() {
    let mut spec =
        Spec::mock(5_000, 100).admission(&["--limit-requests", "6", "--patience-ms", "0"]);
    spec.gateways = 2;
    let stack = Stack::start(spec).await;
    let chats = (0..40).map(|number| {
        let stack = &stack;
        async move { Chat::new(&format!("chat {number}"), 200).ask(stack, number % 2).await }
    });
    let load = join_all(chats);
    tokio::pin!(load);
    let mut most = 0.0_f64;
    let answers = loop {
        tokio::select! {
            answers = &mut load => break answers,
            () = tokio::time::sleep(Duration::from_millis(20)) => {
                let running = stack.engine_metric("cadence_engine_running").await;
                let waiting = stack.engine_metric("cadence_engine_waiting").await;
                most = most.max(running + waiting);
            }
        }
    };
    let complete = answers.iter().filter(|answer| answer.is_complete()).count();
    let refused = answers.iter().filter(|answer| answer.status == 503).count();
    assert_eq!((complete, complete + refused), (6, 40), "{answers:?}");
    assert!(most <= 6.0, "{most} requests ran at once");
    let told = answers.iter().filter(|answer| answer.status == 503);
    for answer in told {
        assert!(answer.retry_after.is_some_and(|it| (1..=59).contains(&it)), "{answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_patient_gets_in_when_there_is_room() {
    let spec = Spec::mock(5_000, 100).admission(&["--limit-requests", "1"]);
    let stack = Stack::start(spec).await;
    let first = async { Chat::new("first", 60).ask(&stack, 0).await };
    let second = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        Chat::new("second", 4).header("x-slo-patience-ms", 5_000).ask(&stack, 0).await
    };
    let third = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        Chat::new("third", 4).header("x-slo-patience-ms", 0).ask(&stack, 0).await
    };
    let (first, second, third) = tokio::join!(first, second, third);
    assert!(first.is_complete() && second.is_complete(), "{first:?} {second:?}");
    assert_eq!(third.status, 503, "{third:?}");
}
