//! The real default model over gRPC: what requests ask for reaches it.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use proto::v1::{self, prepare_request::Input};

use crate::worker::{Answer, Worker, id, prepared};

#[tokio::test]
async fn the_model_does_what_requests_ask_for() {
    let mut worker = Worker::model(&["--slots", "4", "--context-tokens", "512"]).await;
    plain_prompts_go_on(&mut worker).await;
    bias_and_penalties_reach_the_model(&mut worker).await;
    an_answer_goes_on_to_its_cap(&mut worker).await;
    log_probabilities_are_those_of_the_text(&mut worker).await;
    extremes_are_survived(&mut worker).await;
    a_seed_is_a_text(&mut worker).await;
    last_words_are_gone_on_with(&mut worker).await;
    too_long_is_told_at_once(&mut worker).await;
    worker.stop().await;
}

fn greedy() -> v1::Sampling {
    v1::Sampling { top_p: 1.0, ..Default::default() }
}

fn request(number: u128, input: Input) -> v1::PrepareRequest {
    let request_id = id(number);
    v1::PrepareRequest { request_id, input: Some(input), return_token_ids: true }
}

fn text(text: &str) -> Input {
    Input::Text(text.into())
}

fn chat(messages: &[(&str, &str)]) -> Input {
    let message = |&(role, content): &(&str, &str)| v1::ChatMessage {
        role: role.into(),
        content: content.into(),
    };
    Input::Chat(v1::ChatInput { messages: messages.iter().map(message).collect() })
}

async fn complete(worker: &mut Worker, prompt: &str, sampling: v1::Sampling) -> Answer {
    let generate = v1::GenerateRequest { sampling: Some(sampling), ..prepared(1, 8) };
    worker.ask(request(1, text(prompt)), generate).await
}

async fn prompt_ids(worker: &mut Worker, prompt: &str) -> Vec<u32> {
    let told = worker.client.prepare(request(2, text(prompt))).await.expect("prepared");
    told.into_inner().token_ids.expect("asked for").ids
}

/// A plain prompt has no template and no marks around it, and its ids are as good as its text. Control
/// tokens have the lowest ids here, and this model asks for no BOS.
async fn plain_prompts_go_on(worker: &mut Worker) {
    let prompt = "The capital of France is";
    let ids = prompt_ids(worker, prompt).await;
    assert!(ids.len() == 5 && ids.iter().all(|&id| id > 16), "{ids:?}");
    let answer = complete(worker, prompt, greedy()).await;
    assert!(answer.text().contains("Paris"), "{:?}", answer.text());
    let generate = v1::GenerateRequest { sampling: Some(greedy()), ..prepared(1, 8) };
    let input = Input::TokenIds(v1::TokenIds { ids });
    assert_eq!(worker.ask(request(1, input), generate).await.text(), answer.text());

    let marks = prompt_ids(worker, "<|im_start|>user").await;
    assert!(marks.len() > 5 && marks.iter().all(|&id| id > 16), "{marks:?}: letters");
    let empty = worker.client.prepare(request(2, text(""))).await.expect_err("no tokens");
    assert_eq!(empty.code(), tonic::Code::InvalidArgument);
}

async fn an_answer_goes_on_to_its_cap(worker: &mut Worker) {
    let generate = |ignore_eos| v1::GenerateRequest {
        sampling: Some(v1::Sampling { ignore_eos, ..greedy() }),
        ..prepared(1, 64)
    };
    let prompt = chat(&[("user", "Say only: yes")]);
    let plain = worker.ask(request(1, prompt.clone()), generate(false)).await;
    let forced = worker.ask(request(1, prompt), generate(true)).await;
    let reasons = [plain, forced].map(|answer| answer.finished.reason());
    assert_eq!(reasons, [v1::FinishReason::Stop, v1::FinishReason::Length]);
}

async fn bias_and_penalties_reach_the_model(worker: &mut Worker) {
    let token = prompt_ids(worker, "to Paris").await[1];
    let bias = |bias| v1::Sampling { logit_bias: vec![v1::LogitBias { token, bias }], ..greedy() };
    let forbidden = complete(worker, "The capital of France is", bias(-100.0)).await.text();
    assert!(!forbidden.contains(" Paris"), "{forbidden:?}");
    let forced = complete(worker, "The capital of France is", bias(100.0)).await.text();
    assert_eq!(forced, " Paris".repeat(8));

    let prompt = "one one one one one one";
    let plain = complete(worker, prompt, greedy()).await.text();
    for sampling in [
        v1::Sampling { repeat_penalty: Some(5.0), ..greedy() },
        v1::Sampling { frequency_penalty: 2.0, presence_penalty: 2.0, ..greedy() },
    ] {
        let changed = complete(worker, prompt, sampling.clone()).await.text();
        assert_ne!(changed, plain, "{sampling:?}");
    }
}

async fn log_probabilities_are_those_of_the_text(worker: &mut Worker) {
    let prompt =
        chat(&[("user", "Repeat exactly: \u{1f469} \u{1f1ef}\u{1f1f5} \u{6f22}\u{5b57} \u{451}")]);
    let generate = v1::GenerateRequest { sampling: Some(greedy()), ..prepared(1, 40) };
    let plain = worker.ask(request(1, prompt.clone()), generate.clone()).await;
    let generate = v1::GenerateRequest { top_logprobs: Some(3), ..generate };
    let told = worker.ask(request(1, prompt.clone()), generate.clone()).await;
    assert_eq!(told.text(), plain.text());
    for delta in &told.deltas {
        let bytes: Vec<u8> = delta.logprobs.iter().flat_map(|it| it.bytes.clone()).collect();
        assert_eq!(bytes, delta.text.as_bytes());
    }
    for it in told.logprobs() {
        assert!(it.logprob.is_finite() && it.logprob <= 0.0);
        assert_eq!((it.top.len(), it.top[0].token), (3, it.token), "greedy takes the likeliest");
    }

    let whole = told.text();
    let letters: Vec<(usize, char)> = whole.char_indices().collect();
    for start in (2..letters.len().saturating_sub(3)).step_by(7) {
        let stop = whole[letters[start].0..letters[start + 3].0].to_owned();
        let cut = whole.find(&stop).expect("it is there");
        let generate = v1::GenerateRequest { stop: vec![stop], ..generate.clone() };
        let stopped = worker.ask(request(1, prompt.clone()), generate).await;
        assert_eq!(stopped.text(), whole[..cut]);
        assert!(whole.as_bytes()[..cut].starts_with(&stopped.bytes()));
    }
}

async fn extremes_are_survived(worker: &mut Worker) {
    let hottest = v1::Sampling { temperature: 2.0, ..greedy() };
    let likeliest = complete(worker, "The sky is", greedy()).await.text();
    for sampling in [
        v1::Sampling { top_k: 1, ..hottest.clone() },
        v1::Sampling { top_p: f32::MIN_POSITIVE, ..hottest.clone() },
        v1::Sampling { min_p: 1.0, ..hottest.clone() },
    ] {
        assert_eq!(complete(worker, "The sky is", sampling).await.text(), likeliest);
    }
    for sampling in [
        hottest.clone(),
        v1::Sampling { top_k: u32::MAX, ..hottest.clone() },
        v1::Sampling { top_k: 49_153, seed: Some(0), ..hottest.clone() },
        v1::Sampling { seed: Some(u64::MAX), min_p: f32::MIN_POSITIVE, ..hottest.clone() },
        v1::Sampling { temperature: f32::MIN_POSITIVE, ..hottest.clone() },
        v1::Sampling { repeat_penalty: Some(f32::MIN_POSITIVE), ..hottest.clone() },
        v1::Sampling { presence_penalty: -2.0, frequency_penalty: -2.0, ..hottest },
    ] {
        let usage = complete(worker, "The sky is", sampling).await.finished.usage;
        assert!(usage.is_some_and(|it| (1..=8).contains(&it.completion_tokens)), "{usage:?}");
    }
}

async fn a_seed_is_a_text(worker: &mut Worker) {
    let mut texts = Vec::new();
    for seed in [Some(42), Some(43), Some(0), Some(u64::MAX), None, None] {
        let hot = v1::Sampling { temperature: 1.5, seed, ..greedy() };
        let text = complete(worker, "Once upon a time", hot.clone()).await.text();
        if seed.is_some() {
            assert_eq!(complete(worker, "Once upon a time", hot).await.text(), text, "{seed:?}");
        }
        assert!(!texts.contains(&text), "{seed:?} gives its own text");
        texts.push(text);
    }
}

async fn last_words_are_gone_on_with(worker: &mut Worker) {
    let messages = [("user", "What color is the sky?"), ("assistant", "The color of the sky is")];
    let generate = v1::GenerateRequest { sampling: Some(greedy()), ..prepared(1, 8) };
    let answer = worker.ask(request(1, chat(&messages)), generate).await.text();
    assert!(answer.starts_with(' ') && answer.contains("blue"), "{answer:?}");
    let tool = request(1, chat(&[("user", "a"), ("tool", "b")]));
    let status = worker.client.prepare(tool).await.expect_err("no tools");
    assert!(status.message().contains("role tool"), "{status:?}");
}

/// A little and much longer than the context, eight at once.
async fn too_long_is_told_at_once(worker: &mut Worker) {
    for (times, part) in [(520, "word "), (25_600, "word "), (5_120, "<|im_end|>")] {
        let (long, begun) = (part.repeat(times), Instant::now());
        let asked = (0..8).map(|number| {
            let mut client = worker.client.clone();
            let input = if number % 2 == 0 { text(&long) } else { chat(&[("user", &long)]) };
            let prepare = v1::PrepareRequest { return_token_ids: false, ..request(number, input) };
            async move { client.prepare(prepare).await.expect("it is told").into_inner() }
        });
        for told in join_all(asked).await {
            assert!(told.prompt_tokens >= 512 && told.room_tokens == 0, "{told:?}");
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    }
    let alive = complete(worker, "The capital of France is", greedy()).await;
    assert_eq!(alive.finished.reason(), v1::FinishReason::Length);
}
