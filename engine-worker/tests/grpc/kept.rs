//! Kept prefixes under the real model: they change what an answer costs and nothing else.
//!
//! All prompts are computed in pieces of fewer than 64 tokens: from there on llama.cpp computes in tiles, which
//! is another arithmetic.

use futures_util::future::join_all;
use proto::v1;

use crate::worker::{Answer, Worker, prepare, prepared, read};

/// For the arithmetic to be the same however a prompt is cut into pieces.
const PIECES: &[&str] = &["--prefill-tokens", "31", "--context-tokens", "512"];
/// A few hundred tokens.
const SHARED: &str = "A lighthouse keeper writes letters. ";
const QUESTIONS: [&str; 4] =
    ["The first letter says", "Every evening", "The storm came", "Dear sister,"];

async fn start(args: &[&str]) -> Worker {
    Worker::model(&[PIECES, args].concat()).await
}

fn prompt(question: &str) -> String {
    SHARED.repeat(30) + question
}

async fn answer(worker: &mut Worker, number: u128, question: &str) -> Answer {
    worker.ask(prepare(number, &prompt(question)), prepared(number, 12)).await
}

async fn texts(worker: &mut Worker, number: u128) -> Vec<String> {
    let mut texts = Vec::new();
    for (at, question) in (number..).zip(QUESTIONS) {
        texts.push(answer(worker, at, question).await.text());
    }
    texts
}

fn usage(answer: &Answer) -> (u32, u32) {
    let usage = answer.finished.usage.expect("usage");
    (usage.prompt_tokens, usage.cached_tokens)
}

/// Each asked alone, so that the batches have the same shape.
#[tokio::test]
async fn a_kept_prefix_changes_no_answer() {
    let mut worker = start(&["--slots", "2", "--prefix-cache", "off"]).await;
    let computed = texts(&mut worker, 1).await;
    worker.stop().await;

    let rungs: [&[&str]; 4] = [
        &["--slots", "2"],
        &["--slots", "2", "--kv-core", "naive"],
        &["--slots", "2", "--kv-core", "contiguous", "--scheduler", "fifo"],
        &["--slots", "2", "--batch-tokens", "31", "--order", "prefill-first"],
    ];
    for rung in rungs {
        let mut worker = start(rung).await;
        assert_eq!(texts(&mut worker, 1).await, computed, "{rung:?}, cold");
        assert_eq!(texts(&mut worker, 9).await, computed, "{rung:?}, warm");
        let (prompt, cached) = usage(&answer(&mut worker, 99, QUESTIONS[0]).await);
        let expected = if rung.contains(&"contiguous") { 0 } else { prompt.saturating_sub(17) };
        assert!(cached >= expected, "{rung:?}: {cached} of {prompt} tokens were found");
        worker.stop().await;
    }
}

/// Sixteen equal prompts at once: one computes, the others find what it computed, and all say the same.
#[tokio::test]
async fn a_burst_of_equal_prompts_is_computed_once() {
    let mut worker = start(&["--slots", "16", "--unleased-max", "16"]).await;
    let question = QUESTIONS[0];
    for number in 1..=16 {
        worker.prepare(number, &prompt(question)).await;
    }
    let mut streams = Vec::new();
    for number in 1..=16 {
        streams.push(worker.generate(prepared(number, 12)).await.expect("accepted").0);
    }
    let answers = join_all(streams.into_iter().map(read)).await;
    let computed: u32 = answers.iter().map(usage).map(|(prompt, cached)| prompt - cached).sum();
    let (tokens, _) = usage(&answers[0]);
    assert!(computed <= tokens + 15 * 16, "{computed} tokens computed of prompts of {tokens}");
    let mut texts: Vec<String> = answers.iter().map(Answer::text).collect();
    texts.dedup();
    assert_eq!(texts.len(), 1, "{texts:?}");
    assert_eq!(worker.settles().await.kv.expect("usage").held, 0);
    worker.stop().await;
}

/// The one that computes for all leaves in the middle of its prompt: another goes on in its place.
#[tokio::test]
async fn who_computed_for_all_may_leave() {
    let mut worker = start(&["--slots", "8"]).await;
    for number in 1..=8 {
        worker.prepare(number, &prompt(QUESTIONS[1])).await;
    }
    let (first, _) = worker.generate(prepared(1, 12)).await.expect("accepted");
    let mut streams = Vec::new();
    for number in 2..=8 {
        streams.push(worker.generate(prepared(number, 12)).await.expect("accepted").0);
    }
    drop(first);
    let answers = join_all(streams.into_iter().map(read)).await;
    let ended = |answer: &Answer| answer.finished.reason() == v1::FinishReason::Length;
    assert!(answers.iter().all(ended), "{answers:?}");
    let mut texts: Vec<String> = answers.iter().map(Answer::text).collect();
    texts.dedup();
    assert_eq!(texts.len(), 1, "{texts:?}");
    let idle = worker.settles().await;
    assert_eq!((idle.kv.expect("usage").held, idle.running, idle.waiting), (0, 0, 0));
    worker.stop().await;
}

/// One pool of cells, small enough that prefixes have to go and sequences are preempted.
#[tokio::test]
async fn one_pool_under_pressure_answers_everybody() {
    let pool = ["--layout", "unified", "--kv-blocks", "48", "--reservation", "grow"];
    let mut worker = start(&[&pool[..], &["--slots", "4", "--unleased-max", "16"]].concat()).await;
    for round in 0..3 {
        let numbers = (0..12).map(|at| round * 100 + at + 1);
        let mut streams = Vec::new();
        for number in numbers {
            let question = QUESTIONS[(number % 4) as usize];
            worker.prepare(number, &prompt(question)).await;
            streams.push(worker.generate(prepared(number, 20)).await.expect("accepted").0);
        }
        for answer in join_all(streams.into_iter().map(read)).await {
            assert_eq!(answer.finished.reason(), v1::FinishReason::Length, "{answer:?}");
        }
    }
    let kv = worker.settles().await.kv.expect("usage");
    assert_eq!((kv.held, kv.free + kv.reclaimable), (0, 48));
    worker.stop().await;
}
