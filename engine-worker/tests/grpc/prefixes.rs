//! Kept prefixes and the rungs of the ladder, on the mock.

use proto::v1::{self, watch_event::Event as Seen};

use crate::worker::{Answer, FAST, Worker, prepare, prepared};

const LAYOUTS: [&str; 2] = ["streams", "unified"];

/// A text of some blocks: the mock makes a token of every four bytes.
fn text(blocks: usize) -> String {
    "0123456789abcdef".repeat(blocks * 4)
}

async fn start(args: &[&str]) -> Worker {
    Worker::start(&[FAST, args].concat()).await
}

fn cached(answer: &Answer) -> u32 {
    answer.finished.usage.expect("usage").cached_tokens
}

async fn prefixes(worker: &mut Worker) -> v1::PrefixIndex {
    let role = v1::hello::Role::Observer.into();
    let hello = v1::Hello { instance: "reader".into(), role, ..Default::default() };
    let (mut stream, _say) = worker.watch(hello).await.expect("a watch");
    loop {
        let event = stream.message().await.expect("no error").and_then(|it| it.event);
        if let Some(Seen::Snapshot(snapshot)) = event {
            return snapshot.prefixes.expect("the first snapshot names them");
        }
    }
}

#[tokio::test]
async fn a_prompt_that_was_answered_is_found_by_the_next() {
    for layout in LAYOUTS {
        let mut worker = start(&["--layout", layout]).await;
        let cold = worker.prepare(1, &text(4)).await;
        assert_eq!((cold.prompt_tokens, cold.cached_tokens, cold.blocks.len()), (64, 0, 4));
        let first = worker.ask(prepare(1, &text(4)), prepared(1, 20)).await;
        worker.settles().await;

        let longer = text(4) + "and more";
        let warm = worker.prepare(2, &longer).await;
        assert_eq!((warm.prompt_tokens, warm.cached_tokens), (66, 64), "{layout}");
        assert_eq!(warm.kv_blocks, if layout == "streams" { 5 } else { 1 }, "{layout}");
        let same = worker.prepare(3, &text(4)).await;
        assert_eq!(same.cached_tokens, 63, "the last token has to be computed");
        assert_eq!(same.kv_blocks, if layout == "streams" { 4 } else { 1 }, "its block is copied");
        let second = worker.ask(prepare(3, &text(4)), prepared(3, 20)).await;
        assert_eq!((cached(&first), cached(&second)), (0, 63), "{layout}");
        assert_eq!(first.text(), second.text(), "{layout}");

        let listed = prefixes(&mut worker).await;
        assert!(cold.blocks.iter().all(|block| listed.blocks.contains(block)), "{layout}");
        assert_eq!(listed.omitted, 0);
        let counted = same.answers.expect("counted").buckets;
        assert_eq!(counted, [v1::AnswerBucket { least: 16, ended: 0, censored: 1 }]);
        worker.stop().await;
    }
}

#[tokio::test]
async fn without_a_prefix_cache_nothing_is_found() {
    for args in [["--prefix-cache", "off"], ["--kv-core", "contiguous"], ["--prefix-mib", "0"]] {
        let mut worker = start(&args).await;
        for number in 1..3 {
            let answer = worker.ask(prepare(number, &text(4)), prepared(number, 4)).await;
            assert_eq!(cached(&answer), 0, "{args:?}");
        }
        assert_eq!(prefixes(&mut worker).await.blocks, [0; 0], "{args:?}");
        worker.stop().await;
    }
}

#[tokio::test]
async fn every_rung_gives_the_same_answer_and_says_what_it_is() {
    let rungs: [(&[&str], [&str; 3]); 7] = [
        (&["--scheduler", "fifo", "--kv-core", "contiguous"], ["fifo", "contiguous", "streams"]),
        (&["--scheduler", "static", "--static-wait-ms", "5"], ["static", "paged", "streams"]),
        (
            &["--kv-core", "contiguous", "--output-cap", "64"],
            ["continuous", "contiguous", "streams"],
        ),
        (&[], ["continuous", "paged", "streams"]),
        (&["--layout", "unified", "--reservation", "grow"], ["continuous", "paged", "unified"]),
        (&["--kv-core", "naive", "--layout", "unified"], ["continuous", "naive", "unified"]),
        (
            &["--order", "prefill-first", "--lateness", "abort-all", "--itl-ms", "0"],
            ["continuous", "paged", "streams"],
        ),
    ];
    let mut texts = Vec::new();
    for (args, names) in rungs {
        let mut worker = start(args).await;
        texts.push(worker.ask(prepare(1, &text(3)), prepared(1, 12)).await.text());
        let info = worker.settles().await;
        let told = info.scheduling.expect("it says how it schedules");
        assert_eq!([&*told.discipline, &*told.kv_core, &*told.layout], names);
        assert_eq!(told.itl_us, (!args.contains(&"--itl-ms")).then_some(200_000));
        assert_eq!((&*info.scheduler, &*info.layout), (names[0], names[2]));
        assert_eq!(info.kv.expect("usage").held, 0, "{args:?}");
        worker.stop().await;
    }
    texts.dedup();
    assert_eq!(texts.len(), 1, "{texts:?}");
}
