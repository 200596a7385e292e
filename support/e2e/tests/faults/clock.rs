//! The wall clock steps back and forth while everything runs.
//!
//! libfaketime (Debian's package `faketime`) shows the processes the time that a file says. Only the wall
//! clock: a real step leaves the monotonic clock alone too. Without the library the test says that it was
//! skipped.

use std::{fs, path::Path, time::Duration};

use e2e::{Chat, Conditions, Stack};
use tokio::time::sleep;

use crate::scene::{Scene, spec};

/// Where Debian and others put the library; threads want the second build.
const LIBRARIES: [&str; 4] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/faketime/libfaketimeMT.so.1",
    "/usr/lib64/faketime/libfaketimeMT.so.1",
];

const HOUR_S: i64 = 3_600;

fn conditions(library: &str, steps: &Path) -> Conditions {
    let vars = [
        ("LD_PRELOAD", library),
        ("FAKETIME_TIMESTAMP_FILE", steps.to_str().expect("the folder's name is text")),
        ("FAKETIME_NO_CACHE", "1"),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
    ];
    let vars = vars.map(|(name, value)| (name.to_owned(), value.to_owned()));
    Conditions { vars: vars.into() }
}

/// The stack's wall clock against ours, in seconds.
async fn ahead_s(stack: &Stack) -> i64 {
    let answer = Chat::new("what time is it?", 1).ask(stack, 0).await;
    let theirs = i64::try_from(answer.created.expect("a time")).expect("a time");
    let ours = std::time::UNIX_EPOCH.elapsed().expect("after 1970").as_secs();
    theirs - i64::try_from(ours).expect("a time")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_clock_steps() {
    let Some(library) = LIBRARIES.iter().find(|path| Path::new(path).exists()) else {
        e2e::skipped("clock: no libfaketime here, so no clock was stepped; install `faketime`");
        return;
    };
    let dir = tempfile::tempdir().expect("a folder");
    let steps = dir.path().join("steps");
    let step = |text: &str| {
        // Whole or not at all: the processes read it all the time.
        fs::write(dir.path().join("next"), text).expect("written");
        fs::rename(dir.path().join("next"), &steps).expect("renamed");
    };
    step("+0");
    let mut scene = Scene::set(spec().under(conditions(library, &steps))).await;
    assert!(ahead_s(&scene.stack).await.abs() < 60);
    for (name, text, ahead) in
        [("back an hour", "-1h", -HOUR_S), ("ahead a day", "+1d", 24 * HOUR_S), ("back", "+0", 0)]
    {
        let outcome = scene
            .play(name, async |_| {
                step(text);
                sleep(Duration::from_secs(1)).await;
            })
            .await;
        assert_eq!(outcome.streams.complete, outcome.streams.total(), "{name}: {outcome:?}");
        assert_eq!(outcome.arrivals.complete, outcome.arrivals.total(), "{name}: {outcome:?}");
        let seen = ahead_s(&scene.stack).await;
        assert!((seen - ahead).abs() < 60, "{name}: the clock is {seen} s ahead");
    }
    // A new engine in an earlier hour: its epochs and its instance begin below those of the old one.
    let restart = async |stack: &mut Stack| {
        step("-1h");
        stack.engine.restart();
    };
    scene.play("a new engine an hour ago", restart).await;
    let mut processes = [&mut scene.stack.engine, &mut scene.stack.admission];
    assert!(processes.iter_mut().all(|process| process.is_running()));
    assert!(!scene.stack.gateways[0].log().contains("panicked"));
}
