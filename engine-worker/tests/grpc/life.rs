//! Requests, watchers and stops, on the mock.

use std::time::Duration;

use proto::v1::{self, watch_event::Event as Seen};
use tokio::time::timeout;
use tonic::Code;

use crate::worker::{FAST, SLOW, Worker, collect, id, prepare, prepared, promiser, read};

#[tokio::test]
async fn a_request_is_prepared_and_answered() {
    let mut worker = Worker::start(FAST).await;
    let told = worker.prepare(1, "four bytes a token").await;
    assert_eq!((told.prompt_tokens, told.room_tokens, told.kv_blocks), (5, 4_091, 1));
    let (stream, accepted) = worker.generate(prepared(1, 6)).await.expect("accepted");
    assert_eq!((accepted.tier(), accepted.leased), (v1::Tier::BestEffort, false));
    let (text, finished) = collect(stream).await;
    assert_eq!(finished.reason(), v1::FinishReason::Length);
    let usage = finished.usage.expect("usage");
    assert_eq!((usage.prompt_tokens, usage.completion_tokens), (5, 6));
    assert_eq!(text.split_whitespace().count(), 6);

    // The same prompt gets the same text, and a stop string cuts it.
    let word = text.split_whitespace().nth(2).expect("six words");
    worker.prepare(2, "four bytes a token").await;
    let stopping = v1::GenerateRequest { stop: vec![word.into()], ..prepared(2, 6) };
    let (stream, _) = worker.generate(stopping).await.expect("accepted");
    let (cut, finished) = collect(stream).await;
    assert_eq!(finished.reason(), v1::FinishReason::Stop);
    assert_eq!(cut, text[..text.find(word).expect("it is there")]);
    worker.stop().await;
}

#[tokio::test]
async fn what_is_wrong_is_said_once_and_clearly() {
    let mut worker = Worker::start(FAST).await;
    let code =
        |result: Result<_, tonic::Status>| result.map(|_: (_, _)| ()).map_err(|it| it.code());
    assert_eq!(code(worker.generate(prepared(1, 5)).await), Err(Code::NotFound));
    worker.prepare(1, "abc").await;
    assert_eq!(code(worker.generate(prepared(1, 0)).await), Err(Code::InvalidArgument));
    let foreign = v1::generate_request::Prompt::TokenIds(v1::TokenIds { ids: vec![1 << 30] });
    let foreign = v1::GenerateRequest { prompt: Some(foreign), ..prepared(1, 5) };
    assert_eq!(code(worker.generate(foreign).await), Err(Code::InvalidArgument));

    let long = worker.prepare(2, &"x".repeat(4 * 4_096)).await;
    assert_eq!((long.prompt_tokens, long.room_tokens), (4_096, 0));
    assert_eq!(code(worker.generate(prepared(2, 5)).await), Err(Code::NotFound));

    let huge = worker.prepare(2, &"x".repeat(8 << 20)).await;
    assert!(huge.prompt_tokens > 500_000 && huge.room_tokens == 0, "told without tokenising it");

    let empty = v1::ChatMessage { role: "user".into(), content: String::new() };
    let chat = v1::ChatInput { messages: vec![empty; 33_000] };
    let input = Some(v1::prepare_request::Input::Chat(chat));
    let many = worker.client.prepare(v1::PrepareRequest { input, ..prepare(2, "") }).await;
    assert_eq!(many.expect("told").into_inner().room_tokens, 0, "empty messages are not free");

    let bad = v1::PrepareRequest { request_id: "x".into(), ..prepare(1, "abc") };
    let status = worker.client.prepare(bad).await.expect_err("a bad id");
    let param = status.metadata().get("param").expect("it is named");
    assert_eq!((status.code(), param.as_bytes()), (Code::InvalidArgument, &b"request_id"[..]));
    let empty = worker.client.prepare(prepare(3, "")).await.expect_err("nothing to say");
    assert_eq!(empty.code(), Code::InvalidArgument);
    worker.stop().await;
}

#[tokio::test]
async fn a_client_that_leaves_frees_everything() {
    let mut worker =
        Worker::start(&[SLOW, &["--slots", "2", "--unleased-max", "9"]].concat()).await;
    let mut open = Vec::new();
    for number in 1..=4 {
        worker.prepare(number, "abc").await;
        open.push(worker.generate(prepared(number, 4_000)).await.expect("accepted"));
    }
    let info = worker.info().await;
    assert_eq!(info.running + info.waiting, 4);
    drop(open);
    let info = worker.settles().await;
    assert_eq!(info.kv.expect("kv").held, 0);
    worker.stop().await;
}

#[tokio::test]
async fn a_reader_that_reads_nothing_holds_nobody_up_and_loses_nothing() {
    const TOKENS: u32 = 4_000;
    let mut worker =
        Worker::start(&[FAST, &["--slots", "2", "--unleased-max", "9"]].concat()).await;
    let with_logprobs =
        |number| v1::GenerateRequest { top_logprobs: Some(20), ..prepared(number, TOKENS) };
    worker.prepare(1, "abc").await;
    // A megabyte and more: far beyond what the connection takes before somebody reads.
    let (unread, _) = worker.generate(with_logprobs(1)).await.expect("accepted");
    for number in 2..6 {
        let answer = worker.ask(prepare(number, "abc"), prepared(number, 200)).await;
        assert_eq!(answer.finished.usage.expect("usage").completion_tokens, 200);
    }
    // Its slot is free although nobody has read.
    let info = worker.settles().await;
    assert_eq!(info.kv.expect("kv").held, 0);
    let answer = read(unread).await;
    assert_eq!(answer.finished.usage.expect("usage").completion_tokens, TOKENS);
    assert_eq!(answer.logprobs().len(), TOKENS as usize);
    worker.stop().await;
}

#[tokio::test]
async fn who_leaves_during_a_step_keeps_its_place_until_the_step_ends() {
    let step = ["--mock-base-us", "4000000", "--step-ms", "60000"];
    let few = ["--slots", "1", "--waiting-max", "1", "--unleased-max", "9"];
    let mut worker = Worker::start(&[&step[..], &few].concat()).await;
    let token = v1::generate_request::Prompt::TokenIds(v1::TokenIds { ids: vec![5] });
    let request =
        |number| v1::GenerateRequest { prompt: Some(token.clone()), ..prepared(number, 1) };
    let (first, _) = worker.generate(request(0)).await.expect("accepted");
    // Nobody is heard before the step ends, so nobody is answered but who finds no place.
    let mut refused = None;
    for number in 1..200 {
        let asked = worker.client.generate(request(number));
        if let Ok(answer) = timeout(Duration::from_millis(5), asked).await {
            refused = answer.err();
            break;
        }
    }
    assert_eq!(refused.expect("places are few").code(), Code::ResourceExhausted);
    assert_eq!(collect(first).await.1.reason(), v1::FinishReason::Length);
    worker.settles().await;
    worker.generate(request(500)).await.expect("there is room again");
    worker.stop().await;
}

#[tokio::test]
async fn an_id_that_runs_is_refused_and_the_first_goes_on() {
    let mut worker = Worker::start(&[SLOW, &["--unleased-max", "2"]].concat()).await;
    worker.prepare(1, "abc").await;
    let (first, _) = worker.generate(prepared(1, 8)).await.expect("accepted");
    worker.prepare(1, "abc").await;
    let second = worker.generate(prepared(1, 8)).await.expect_err("a duplicate");
    assert_eq!(second.code(), Code::AlreadyExists);
    let (_, finished) = collect(first).await;
    assert_eq!(finished.usage.expect("usage").completion_tokens, 8);
    worker.stop().await;
}

#[tokio::test]
async fn requests_without_a_lease_are_capped() {
    let mut worker = Worker::start(&[SLOW, &["--unleased-max", "1"]].concat()).await;
    worker.prepare(1, "abc").await;
    let _first = worker.generate(prepared(1, 4_000)).await.expect("accepted");
    worker.prepare(2, "abc").await;
    let second = worker.generate(prepared(2, 8)).await.expect_err("no lease");
    assert_eq!(second.code(), Code::ResourceExhausted);
    assert!(second.metadata().contains_key("retry-after-us"));
    worker.stop().await;
}

#[tokio::test]
async fn a_promiser_sees_everything_in_order_and_resumes() {
    let mut worker = Worker::start(FAST).await;
    let (mut seen, say) = worker.watch(promiser()).await.expect("granted");
    let first = seen.message().await.expect("no error").and_then(|it| it.event);
    let Some(Seen::Granted(granted)) = first else { panic!("{first:?}") };
    assert!(granted.epoch > 0 && !granted.resumed);
    let rival = v1::Hello { instance: "rival".into(), ..promiser() };
    let second = worker.watch(rival).await.expect_err("one promiser an engine");
    assert_eq!(second.code(), Code::FailedPrecondition);

    worker.prepare(1, "abc").await;
    let tier = v1::Tier::Promised.into();
    let admitted_as = Some(v1::AdmittedAs { tier, epoch: granted.epoch });
    let request = v1::GenerateRequest { admitted_as, ..prepared(1, 3) };
    let (stream, accepted) = worker.generate(request).await.expect("accepted");
    assert_eq!((accepted.tier(), accepted.leased), (v1::Tier::Promised, true));
    collect(stream).await;

    let mut numbers = Vec::new();
    let mut life = Vec::new();
    while life.len() < 4 {
        let event = timeout(Duration::from_secs(2), seen.message()).await.expect("in time");
        match event.expect("no error").and_then(|it| it.event) {
            Some(Seen::Record(record)) => {
                numbers.push(record.number);
                if let Some(v1::record::Event::Lifecycle(it)) = record.event {
                    assert_eq!(it.request_id, id(1));
                    life.push(match it.event.expect("an event") {
                        v1::lifecycle::Event::Submitted(_) => "submitted",
                        v1::lifecycle::Event::Started(_) => "started",
                        v1::lifecycle::Event::FirstToken(_) => "first token",
                        v1::lifecycle::Event::Finished(_) => "finished",
                    });
                }
            }
            Some(Seen::Snapshot(_) | Seen::Ping(_)) => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(life, ["submitted", "started", "first token", "finished"]);
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());

    // Back before its loss is noticed: it takes over from itself, and the records go on.
    let again = v1::Hello {
        resume_after_record: Some(2),
        resume_engine_instance: granted.engine_instance,
        ..promiser()
    };
    let (old, (mut seen, _say)) = ((seen, say), worker.watch(again).await.expect("granted"));
    let first = seen.message().await.expect("no error").and_then(|it| it.event);
    let Some(Seen::Granted(regranted)) = first else { panic!("{first:?}") };
    assert!(regranted.resumed && regranted.epoch > granted.epoch);
    let next = seen.message().await.expect("no error").and_then(|it| it.event);
    assert!(matches!(&next, Some(Seen::Record(record)) if record.number == 3), "{next:?}");
    drop(old);
    worker.stop().await;
}

#[tokio::test]
async fn a_promiser_that_never_pings_loses_its_epoch() {
    let mut worker = Worker::start(FAST).await;
    let asked_at = std::time::Instant::now();
    let (mut seen, _say) = worker.watch(promiser()).await.expect("granted");
    let first = seen.message().await.expect("no error").and_then(|it| it.event);
    let Some(Seen::Granted(granted)) = first else { panic!("{first:?}") };
    let rival = v1::Hello { instance: "rival".into(), ..promiser() };
    let taking_over = async {
        loop {
            match worker.watch(rival.clone()).await {
                Ok(watch) => return watch,
                Err(status) => assert_eq!(status.code(), Code::FailedPrecondition),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let taken = timeout(Duration::from_secs(30), taking_over).await.expect("the epoch lapses");
    assert!(asked_at.elapsed() >= Duration::from_secs(3), "it lapsed early");

    // The stream is still open, and says nothing any more about who promises.
    worker.prepare(1, "abc").await;
    let tier = v1::Tier::Promised.into();
    let admitted_as = Some(v1::AdmittedAs { tier, epoch: granted.epoch });
    let request = v1::GenerateRequest { admitted_as, ..prepared(1, 1) };
    let (stream, accepted) = worker.generate(request).await.expect("accepted");
    assert_eq!((accepted.tier(), accepted.leased), (v1::Tier::BestEffort, false));
    collect(stream).await;
    drop((seen, taken));
    worker.stop().await;
}

#[tokio::test]
async fn a_stop_ends_streams_in_band() {
    let mut worker = Worker::start(SLOW).await;
    worker.prepare(1, "abc").await;
    let (stream, _) = worker.generate(prepared(1, 4_000)).await.expect("accepted");
    let reading = tokio::spawn(collect(stream));
    worker.stop().await;
    let (_, finished) = reading.await.expect("a finished event");
    assert_eq!(finished.reason(), v1::FinishReason::Shutdown);
}

#[tokio::test]
async fn who_waits_past_the_budget_is_told() {
    let mut worker =
        Worker::start(&[SLOW, &["--slots", "1", "--unleased-max", "9"]].concat()).await;
    worker.prepare(1, "abc").await;
    let _runs = worker.generate(prepared(1, 4_000)).await.expect("accepted");
    worker.prepare(2, "abc").await;
    let budget = Some(v1::Budget { e2e_us: Some(80_000), ttft_us: None });
    let late = v1::GenerateRequest { budget, ..prepared(2, 8) };
    let (stream, _) = worker.generate(late).await.expect("accepted");
    let (_, finished) = collect(stream).await;
    assert_eq!(finished.reason(), v1::FinishReason::Deadline);
    worker.stop().await;
}
