//! Log probabilities and token ids, on the mock.

use proto::v1;
use tonic::Code;

use crate::worker::{Answer, FAST, Worker, prepare, prepared, read};

/// Eleven words and the end of the turn.
const TWELVE: &[&str] = &["--mock-answer-tokens", "12"];

/// The same answer each time, with log probabilities where they are asked for.
async fn ask(worker: &mut Worker, top_logprobs: Option<u32>, stop: &[&str]) -> Answer {
    let stop = stop.iter().map(|&stop| stop.to_owned()).collect();
    let generate = v1::GenerateRequest { top_logprobs, stop, ..prepared(1, 40) };
    worker.ask(prepare(1, "what is likely?"), generate).await
}

#[tokio::test]
async fn every_token_of_a_text_comes_with_it() {
    let mut worker = Worker::start(&[FAST, TWELVE].concat()).await;
    let plain = ask(&mut worker, None, &[]).await;
    assert!(plain.logprobs().is_empty());
    for count in [0, 1, 5, 20] {
        let answer = ask(&mut worker, Some(count), &[]).await;
        assert_eq!((answer.text(), answer.finished.usage), (plain.text(), plain.finished.usage));
        assert_eq!(answer.logprobs().len(), 11, "the end of the turn has no text");
        for delta in &answer.deltas {
            assert_eq!(
                delta.logprobs.iter().flat_map(|it| it.bytes.clone()).collect::<Vec<_>>(),
                delta.text.as_bytes()
            );
        }
        for it in answer.logprobs() {
            assert!(it.logprob.is_finite() && it.logprob <= 0.0);
            assert_eq!(it.top.len(), count as usize);
            assert!(it.top.is_sorted_by(|a, b| a.logprob >= b.logprob));
            assert!(it.top.iter().all(|top| top.top.is_empty() && !top.bytes.is_empty()));
            assert!(it.top.iter().map(|top| top.logprob.exp()).sum::<f32>() < 1.0001);
        }
        assert_eq!(ask(&mut worker, Some(count), &[]).await.logprobs(), answer.logprobs());
    }
    worker.stop().await;
}

#[tokio::test]
async fn a_stop_sequence_takes_its_tokens_with_it() {
    let mut worker = Worker::start(&[FAST, TWELVE].concat()).await;
    let whole = ask(&mut worker, None, &[]).await.text();
    // Every word is a token with a space before it.
    let word = whole.split(' ').nth(4).expect("eleven words");
    for stop in [format!(" {word}"), word.to_owned(), word[1..3].to_owned(), "never".to_owned()] {
        let answer = ask(&mut worker, Some(2), &[&stop]).await;
        let cut = whole.find(&stop).unwrap_or(whole.len());
        assert_eq!(answer.text(), whole[..cut], "{stop:?}");
        let tokens = whole[..cut].len() / 5;
        assert_eq!(answer.logprobs().len(), tokens, "whole tokens before {stop:?}");
        assert!(whole.as_bytes().starts_with(&answer.bytes()), "{stop:?}");
    }
    worker.stop().await;
}

#[tokio::test]
async fn bad_parameters_are_named() {
    let mut worker = Worker::start(FAST).await;
    let plain = v1::Sampling { top_p: 1.0, ..Default::default() };
    let sampling = |sampling| v1::GenerateRequest { sampling: Some(sampling), ..prepared(1, 5) };
    let bias = |entries: &[(u32, f32)]| {
        let entry = |&(token, bias): &(u32, f32)| v1::LogitBias { token, bias };
        let logit_bias = entries.iter().map(entry).collect();
        sampling(v1::Sampling { logit_bias, ..plain.clone() })
    };
    let nan = f32::NAN;
    for (field, request) in [
        ("top_logprobs", v1::GenerateRequest { top_logprobs: Some(21), ..prepared(1, 5) }),
        ("presence_penalty", sampling(v1::Sampling { presence_penalty: 2.1, ..plain.clone() })),
        ("frequency_penalty", sampling(v1::Sampling { frequency_penalty: nan, ..plain.clone() })),
        ("repeat_penalty", sampling(v1::Sampling { repeat_penalty: Some(0.0), ..plain.clone() })),
        ("repeat_penalty", sampling(v1::Sampling { repeat_penalty: Some(nan), ..plain.clone() })),
        ("logit_bias", bias(&[(1, f32::INFINITY)])),
        ("logit_bias", bias(&[(u32::MAX, 1.0)])),
        ("logit_bias", bias(&[(1, 1.0), (1, 1.0)])),
        ("logit_bias", bias(&vec![(1, 1.0); 1_025])),
    ] {
        worker.prepare(1, "abc").await;
        let status = worker.generate(request).await.map(|_| ()).expect_err(field);
        let param = status.metadata().get("param").expect("it is named");
        assert_eq!((status.code(), param.as_bytes()), (Code::InvalidArgument, field.as_bytes()));
    }
    worker.stop().await;
}

#[tokio::test]
async fn token_ids_go_out_and_come_back() {
    let mut worker = Worker::start(FAST).await;
    let asking = v1::PrepareRequest { return_token_ids: true, ..prepare(1, "eight by") };
    let told = worker.client.prepare(asking.clone()).await.expect("prepared").into_inner();
    let ids = told.token_ids.expect("asked for");
    assert_eq!((ids.ids.len(), told.prompt_tokens), (2, 2));
    assert_eq!(worker.prepare(1, "eight by").await.token_ids, None);
    let expected = worker.ask(asking.clone(), prepared(1, 6)).await.text();

    let input = Some(v1::prepare_request::Input::TokenIds(ids.clone()));
    let given = v1::PrepareRequest { input, ..asking.clone() };
    let echoed = worker.client.prepare(given.clone()).await.expect("prepared").into_inner();
    assert_eq!(echoed.token_ids.as_ref(), Some(&ids));
    assert_eq!(worker.ask(given, prepared(1, 6)).await.text(), expected);
    // Without preparing again: several answers to one prompt.
    let prompt = Some(v1::generate_request::Prompt::TokenIds(ids));
    let direct = v1::GenerateRequest { prompt, ..prepared(2, 6) };
    let (stream, _) = worker.generate(direct).await.expect("accepted");
    assert_eq!(read(stream).await.text(), expected);

    for ids in [vec![], vec![1 << 30]] {
        let input = Some(v1::prepare_request::Input::TokenIds(v1::TokenIds { ids }));
        let bad = v1::PrepareRequest { input, ..asking.clone() };
        let status = worker.client.prepare(bad).await.expect_err("no prompt");
        assert_eq!(status.code(), Code::InvalidArgument);
    }
    worker.stop().await;
}
