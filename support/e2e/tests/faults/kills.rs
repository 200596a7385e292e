//! A process is killed, or asked to end, in the middle of its work.

use std::time::{Duration, Instant};

use e2e::{Answer, Chat, Process, Stack, eventually};
use futures_util::future::join_all;

use crate::scene::{Scene, spec};

const TOLD_WITHIN: Duration = Duration::from_secs(2);

/// A dozen streams, each long enough to be running when something dies.
async fn streams(stack: &Stack) -> Vec<Answer> {
    let chats = (0..12).map(|number| Chat::new(&format!("stream {number}"), 400));
    join_all(chats.map(|chat| async move { chat.ask(stack, 0).await })).await
}

async fn within(patience: Duration, condition: impl AsyncFn() -> bool) {
    let started = Instant::now();
    assert!(eventually(patience, condition).await, "not within {patience:?}");
    eprintln!("after {:?}", started.elapsed());
}

async fn chats_again(stack: &Stack) {
    let answer = Chat::new("still there?", 4).ask(stack, 0).await;
    assert!(answer.is_complete(), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_engine_is_killed_under_load() {
    let mut stack = Stack::start(spec()).await;
    let (killed, answers) = {
        let running = streams(&stack);
        tokio::pin!(running);
        let early = tokio::time::timeout(Duration::from_millis(500), &mut running).await;
        assert!(early.is_err(), "the streams are too short");
        stack.engine.kill_now();
        let killed = Instant::now();
        (killed, running.await)
    };
    eprintln!("streams ended {:?} after the kill", killed.elapsed());
    assert!(killed.elapsed() < TOLD_WITHIN, "a stream hung for {:?}", killed.elapsed());
    for answer in &answers {
        assert_eq!(answer.status, 200);
        assert!(answer.error.is_some() && answer.finish.is_none() && !answer.done, "{answer:?}");
    }
    within(TOLD_WITHIN, async || stack.ready(0).await.is_some_and(|(status, _)| status == 503))
        .await;

    let refused = Chat::new("anybody?", 4).ask(&stack, 0).await;
    assert_eq!(refused.status, 503, "{refused:?}");
    assert!(refused.retry_after.is_some_and(|it| (1..=59).contains(&it)), "{refused:?}");
    assert!(refused.error.is_some() && refused.took < TOLD_WITHIN, "{refused:?}");
    // Admission forgets after the three seconds in which an engine may come back to its watch.
    let forgotten =
        async || stack.admission_metric("cadence_admission_in_system_requests").await == 0.0;
    within(Duration::from_secs(5), forgotten).await;

    stack.engine.restart();
    within(Duration::from_secs(5), async || stack.is_healthy(0).await).await;
    chats_again(&stack).await;
    within(TOLD_WITHIN, async || stack.is_idle().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn admission_is_killed_under_load() {
    let mut stack = Stack::start(spec()).await;
    let answers = {
        let running = streams(&stack);
        tokio::pin!(running);
        let early = tokio::time::timeout(Duration::from_millis(500), &mut running).await;
        assert!(early.is_err(), "the streams are too short");
        stack.admission.kill_now();
        running.await
    };
    // What runs is the engine's business: nobody loses anything.
    assert!(answers.iter().all(Answer::is_complete), "{answers:?}");
    let degraded = async || {
        let ready = stack.ready(0).await;
        ready
            .is_some_and(|(status, body)| status == 200 && body["admission"]["state"] == "degraded")
    };
    within(TOLD_WITHIN, degraded).await;

    let unpromised = Chat::new("without a promise", 4).ask(&stack, 0).await;
    assert!(unpromised.is_complete(), "{unpromised:?}");
    assert_eq!(unpromised.tier.as_deref(), Some("best-effort"));
    assert!(unpromised.took < TOLD_WITHIN);
    // The gateway's own cap holds: the rest is refused at once.
    let burst = streams(&stack).await;
    let (complete, refused): (Vec<_>, Vec<_>) = burst.iter().partition(|it| it.is_complete());
    assert!(!complete.is_empty() && !refused.is_empty(), "{burst:?}");
    assert!(refused.iter().all(|it| it.status == 503 && it.retry_after.is_some()), "{refused:?}");

    stack.admission.restart();
    within(Duration::from_secs(5), async || stack.is_healthy(0).await).await;
    chats_again(&stack).await;
    within(TOLD_WITHIN, async || stack.is_idle().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_is_killed_under_load_and_loses_nothing() {
    let stack = Stack::start(spec().gateways(2)).await;
    let running = streams(&stack);
    tokio::pin!(running);
    assert!(tokio::time::timeout(Duration::from_millis(500), &mut running).await.is_err());
    stack.gateways[0].kill_now();
    running.await;
    let freed = async || {
        stack.engine_metric("cadence_engine_running").await == 0.0
            && stack.admission_metric("cadence_admission_in_system_requests").await == 0.0
    };
    within(TOLD_WITHIN, freed).await;
    let answer = Chat::new("the other one", 4).ask(&stack, 1).await;
    assert!(answer.is_complete(), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_ends_each_process_with_0() {
    let mut stack = Stack::start(spec()).await;
    let answer = {
        let chat = Chat::new("on and on", 100);
        let long = chat.ask(&stack, 0);
        tokio::pin!(long);
        assert!(tokio::time::timeout(Duration::from_millis(200), &mut long).await.is_err());
        stack.gateways[0].terminate();
        long.await
    };
    assert!(answer.is_complete() && answer.done, "it had the time to finish: {answer:?}");
    assert!(stack.gateways[0].wait(Duration::from_secs(15)).success());
    stack.admission.terminate();
    assert!(stack.admission.wait(Duration::from_secs(5)).success());
    stack.engine.terminate();
    assert!(stack.engine.wait(Duration::from_secs(5)).success());
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_kill_nothing_is_left_over() {
    let mut scene = Scene::set(spec()).await;
    let outcome = scene.play("engine killed", async |stack| outage(&mut stack.engine).await).await;
    assert_eq!((outcome.streams.lost, outcome.arrivals.lost), (0, 0), "{outcome:?}");
    assert_eq!(outcome.streams.complete, 0, "{outcome:?}");
    let killed = async |stack: &mut Stack| outage(&mut stack.admission).await;
    let outcome = scene.play("admission killed", killed).await;
    assert_eq!(outcome.streams.complete, outcome.streams.total(), "{outcome:?}");
    assert_eq!((outcome.arrivals.broken, outcome.arrivals.lost), (0, 0), "{outcome:?}");
    let killed = async |stack: &mut Stack| outage(&mut stack.gateways[0]).await;
    let outcome = scene.play("gateway killed", killed).await;
    assert_eq!(outcome.streams.lost, outcome.streams.total(), "{outcome:?}");
}

async fn outage(process: &mut Process) {
    process.kill();
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    process.restart();
}

#[tokio::test(flavor = "multi_thread")]
async fn places_of_the_fallback_come_back() {
    let mut scene = Scene::set(spec().gateway(&["--fallback-requests-max", "3"])).await;
    scene.stack.admission.kill();
    let stack = &scene.stack;
    within(TOLD_WITHIN, async || {
        stack.ready(0).await.is_some_and(|(_, body)| body["admission"]["state"] == "degraded")
    })
    .await;
    // Three times as many clients as there are places, each leaving in the middle.
    for round in 0..3 {
        let leaving = (0..3).map(|_| async {
            let long = Chat::new("on and on", 400);
            tokio::time::timeout(Duration::from_millis(300), long.ask(stack, 0)).await.is_err()
        });
        assert_eq!(join_all(leaving).await, [true; 3], "round {round}: who is refused is answered");
        let in_flight = "cadence_gateway_in_flight{route=\"chat\"}";
        within(TOLD_WITHIN, async || stack.gateway_metric(0, in_flight).await == 0.0).await;
    }
    let chats = (0..3).map(|_| async { Chat::new("short", 4).ask(stack, 0).await });
    assert!(join_all(chats).await.iter().all(Answer::is_complete), "a place is lost");
    scene.stack.admission.restart();
    let stack = &scene.stack;
    within(Duration::from_secs(5), async || stack.is_healthy(0).await).await;
    scene.nothing_is_left("admission away").await;
}
