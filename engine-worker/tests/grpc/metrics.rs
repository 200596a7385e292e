//! What the worker says about itself.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    time::Duration,
};

use crate::worker::{FAST, Worker, prepare, prepared};

fn scrape(address: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    answer
}

/// Waits for the gauges, which are read twice a second.
async fn scraped(address: &str) -> String {
    for _ in 0..500 {
        let address = address.to_owned();
        let text = tokio::task::spawn_blocking(move || scrape(&address)).await.expect("no panic");
        if text.contains("cadence_engine_step_cost_gain ") {
            return text;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("no gauges");
}

/// The only test of this process that starts metrics, of which a process has one set.
#[tokio::test]
async fn every_metric_says_what_it_is() {
    let address = ports::free_address().to_string();
    let args = [FAST, &["--backend", "mock", "--metrics-listen", &address]].concat();
    let mut worker = Worker::launch(&args).await;
    worker.ask(prepare(1, "count me"), prepared(1, 5)).await;
    let text = scraped(&address).await;
    let names = |prefix: &str| {
        let lines = text.lines().filter_map(|line| line.strip_prefix(prefix));
        let names = lines.filter_map(|rest| rest.split(' ').next());
        let mut names: Vec<&str> = names.filter(|name| name.starts_with("cadence_")).collect();
        names.sort_unstable();
        names
    };
    assert!(names("# TYPE ").len() >= 12, "{text}");
    assert_eq!(names("# HELP "), names("# TYPE "), "each with its help");
    assert!(!text.contains(" summary"), "quantiles of several engines do not add up: {text}");
    assert!(text.contains("cadence_engine_step_rows_bucket{le=\"2\"}"), "{text}");
    assert!(text.contains("cadence_engine_itl_target_seconds 0.2"), "{text}");
    let part = "cadence_engine_step_part_seconds";
    assert!(text.contains(&format!("{part}_bucket{{part=\"plan\",le=\"0.000001\"}}")), "{text}");
    for name in ["plan", "publish", "move", "batch", "decode", "sample", "detokenise", "commit"] {
        assert!(text.contains(&format!("{part}_count{{part=\"{name}\"}} ")), "{name}: {text}");
    }
    worker.stop().await;
}

#[tokio::test]
async fn the_mock_has_an_identity() {
    let mut identities = Vec::new();
    for args in [FAST, &["--slots", "2"]] {
        let mut worker = Worker::start(args).await;
        identities.push(worker.info().await.model.expect("a model").sha256);
        worker.stop().await;
    }
    assert_eq!(identities[0], identities[1]);
    let hex = |text: &str| text.bytes().all(|it| it.is_ascii_hexdigit());
    assert!(identities[0].len() == 64 && hex(&identities[0]), "{identities:?}");
}
