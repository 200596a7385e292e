//! Many at once, or one after a long time.

use std::time::Duration;

use e2e::{Answer, Chat, Process, Spec, Stack, eventually};
use futures_util::{StreamExt as _, future::join_all, stream};
use serde_json::json;

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

/// There is another engine, and it is well. Nobody begins there what has begun elsewhere.
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_is_never_begun_again_on_another_engine() {
    let dir = tempfile::tempdir().expect("a folder");
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .expect("a port")
        .local_addr()
        .expect("one")
        .port();
    let address = format!("127.0.0.1:{port}");
    let args = ["--backend", "mock", "--listen", &address, "--metrics-listen", ""];
    let _spare = Process::start("engine-worker", "spare", &args.map(String::from), dir.path());
    let mut stack = Stack::start(Spec::mock(5_000, 100).gateway(&["--engine", &address])).await;
    let chat = Chat::new("on and on", 400);
    let expected = chat.clone().with("max_tokens", json!(100)).ask(&stack, 0).await.text;
    let cut = {
        let stream = chat.ask(&stack, 0);
        tokio::pin!(stream);
        assert!(tokio::time::timeout(Duration::from_millis(300), &mut stream).await.is_err());
        stack.engine.kill_now();
        stream.await
    };
    assert!(cut.error.is_some() && cut.finish.is_none() && !cut.done, "{cut:?}");
    assert!(!cut.text.is_empty() && expected.starts_with(&cut.text), "{cut:?}");
    stack.engine.kill();
    let served = async || Chat::new("and you?", 4).ask(&stack, 0).await.is_complete();
    assert!(eventually(Duration::from_secs(10), served).await, "the other engine does not serve");
}
