//! A process stands still and goes on: its connections stay open and nobody says a word.

use std::time::Duration;

use e2e::{Process, Stack};
use tokio::time::sleep;

use crate::scene::{Outcome, Scene, spec};

/// Shorter than any time limit: a busy machine, a debugger, a snapshot of a virtual machine.
const SHORT: Duration = Duration::from_millis(700);
/// Longer than keep-alive pings wait.
const LONG: Duration = Duration::from_secs(4);

type Who = fn(&Stack) -> &Process;

async fn pause(stack: &Stack, who: Who, time: Duration) {
    who(stack).freeze();
    sleep(time).await;
    who(stack).thaw();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_engine_stands_still() {
    let mut scene = Scene::set(spec()).await;
    let engine: Who = |stack| &stack.engine;
    let short = scene.play("engine, short", async |stack| pause(stack, engine, SHORT).await).await;
    nobody_loses(&short);
    let long = scene.play("engine, long", async |stack| pause(stack, engine, LONG).await).await;
    assert!(long.arrivals.refused > 0, "new clients are told: {long:?}");
    assert_eq!((long.streams.lost, long.arrivals.lost), (0, 0), "{long:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn admission_stands_still() {
    let mut scene = Scene::set(spec()).await;
    let admission: Who = |stack| &stack.admission;
    for (name, time) in [("admission, short", SHORT), ("admission, long", LONG)] {
        let outcome = scene.play(name, async |stack| pause(stack, admission, time).await).await;
        assert_eq!(outcome.streams.complete, outcome.streams.total(), "{name}: {outcome:?}");
        assert_eq!((outcome.arrivals.broken, outcome.arrivals.lost), (0, 0), "{name}: {outcome:?}");
        assert!(outcome.arrivals.complete > 0, "{name}: the fallback serves: {outcome:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_gateway_stands_still() {
    let mut scene = Scene::set(spec()).await;
    let gateway: Who = |stack| &stack.gateways[0];
    let short =
        scene.play("gateway, short", async |stack| pause(stack, gateway, SHORT).await).await;
    nobody_loses(&short);
    let long = scene.play("gateway, long", async |stack| pause(stack, gateway, LONG).await).await;
    assert_eq!((long.streams.lost, long.arrivals.lost), (0, 0), "{long:?}");
}

fn nobody_loses(outcome: &Outcome) {
    for tally in [&outcome.streams, &outcome.arrivals] {
        assert_eq!(tally.complete, tally.total(), "{outcome:?}");
    }
}
