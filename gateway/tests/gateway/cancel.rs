//! Clients that leave.

use std::time::Duration;

use proto::v1::Tier;

use crate::support::{
    AdmissionSaw, Connection, EngineSaw, Preparing, Stack, Step, Verdict, answer, chat, post,
};

const MODES: [&str; 2] = ["", "\"stream\":true"];

#[tokio::test(flavor = "multi_thread")]
async fn leaving_while_the_engine_prepares() {
    let stack = Stack::start().await;
    stack.engine.prepares(Preparing::Hang);
    for members in MODES {
        let mut connection = Connection::open(stack.address).await;
        connection.send(chat(members)).await;
        stack.engine.saw_prepare().await;
        drop(connection);
        stack.engine.saw_drop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn leaving_while_held() {
    let stack = Stack::start().await;
    stack.admission.will(Verdict::Hang);
    for members in MODES {
        let mut connection = Connection::open(stack.address).await;
        connection.send(chat(members)).await;
        stack.admission.saw_decide().await;
        drop(connection);
        assert!(matches!(stack.admission.saw().await, AdmissionSaw::Dropped));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn leaving_before_acceptance_in_prefill_and_mid_answer() {
    let stack = Stack::start().await;
    let phases = [
        vec![Step::Hang],
        vec![Step::Accept(Tier::Promised), Step::Hang],
        vec![Step::Accept(Tier::Promised), Step::Token("x"), Step::Hang],
    ];
    for steps in phases {
        stack.engine.will(steps.clone());
        for members in MODES {
            let mut connection = Connection::open(stack.address).await;
            connection.send(chat(members)).await;
            stack.engine.saw_prepare().await;
            stack.engine.saw_generate().await;
            if steps.len() > 1 && !members.is_empty() {
                assert_eq!(connection.head().await.0, 200);
            }
            drop(connection);
            stack.engine.saw_drop().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_who_stalls_is_cut_off() {
    let stack = Stack::with(&["--write-timeout-ms", "200"]).await;
    let text: &'static str = "x".repeat(64 << 10).leak();
    let mut steps = vec![Step::Accept(Tier::Promised)];
    // More than all buffers between engine and client can hold.
    steps.extend(std::iter::repeat_n(Step::Token(text), 1_000));
    stack.engine.will(steps);
    let mut connection = Connection::open(stack.address).await;
    connection.send(chat("\"stream\":true")).await;
    assert!(matches!(stack.engine.saw().await, EngineSaw::Prepare(_)));
    stack.engine.saw_generate().await;
    stack.engine.saw_drop().await;
    drop(connection);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_reader_gets_everything() {
    let stack = Stack::with(&["--write-timeout-ms", "2000"]).await;
    let text: &'static str = "x".repeat(32 << 10).leak();
    let mut steps = vec![Step::Accept(Tier::Promised)];
    steps.extend(std::iter::repeat_n(Step::Token(text), 300));
    steps.push(Step::Finish(proto::v1::FinishReason::Stop));
    stack.engine.will(steps);
    let mut connection = Connection::open(stack.address).await;
    connection.send(chat("\"stream\":true")).await;
    assert_eq!(connection.head().await.0, 200);
    // By now the engine waits for the gateway, and the gateway for the client.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let mut text = Vec::new();
    while let Some(chunk) = connection.chunk().await {
        text.extend(chunk);
    }
    assert!(text.ends_with(b"data: [DONE]\n\n"));
    assert_eq!(text.iter().filter(|byte| **byte == b'x').count() / (32 << 10), 300);
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_who_stall_do_not_hold_up_others() {
    let stack = Stack::start().await;
    let text: &'static str = "x".repeat(64 << 10).leak();
    let mut steps = vec![Step::Accept(Tier::Promised)];
    steps.extend(std::iter::repeat_n(Step::Token(text), 1_000));
    stack.engine.will(steps);
    let mut stalled = Vec::new();
    for _ in 0..16 {
        let mut connection = Connection::open(stack.address).await;
        connection.send(chat("\"stream\":true")).await;
        assert_eq!(connection.head().await.0, 200);
        stalled.push(connection);
    }
    // By now every buffer on their way is full.
    tokio::time::sleep(Duration::from_millis(300)).await;
    stack.engine.will(answer(&["x"]));
    assert_eq!(post(stack.address, chat("")).await.status, 200);
}
