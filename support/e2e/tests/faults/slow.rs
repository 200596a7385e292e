//! A step that takes long is a slow step, not a dead engine.

use std::time::Duration;

use e2e::{Chat, Spec, Stack};
use tokio::time::sleep;

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_in_a_long_step_still_takes_requests() {
    // As on an oversubscribed machine, but told beforehand: steps of three seconds.
    let stack = Stack::start(Spec::mock(3_000_000, 0).engine(&["--step-ms", "10000"])).await;
    let first = async { Chat::new("first", 2).ask(&stack, 0).await };
    let second = async {
        // Every moment of a step, the last one included.
        for _ in 0..14 {
            sleep(Duration::from_millis(200)).await;
            let (status, body) = stack.ready(0).await.expect("the gateway answers");
            assert_eq!((status, &body["engine"]["state"]), (200, &"ok".into()), "{body}");
        }
        Chat::new("second", 1).ask(&stack, 0).await
    };
    let (first, second) = tokio::join!(first, second);
    assert!(first.is_complete() && second.is_complete(), "{first:?} {second:?}");
}
