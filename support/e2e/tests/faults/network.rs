//! The network between two processes fails, for each two of the three and each way to fail.

use std::time::Duration;

use e2e::{Link, Links, Weather};
use tokio::time::sleep;

use crate::scene::{Outcome, Scene, spec};

/// Every way to fail, and for how long: past the limit of keep-alive pings where nothing passes.
const FAILURES: [(&str, Weather, Duration); 3] = [
    ("nothing passes", Weather::Blackhole, Duration::from_secs(4)),
    ("connections are reset", Weather::Reset, Duration::from_millis(1_500)),
    ("slow", Weather::Slow(Duration::from_millis(150)), Duration::from_secs(2)),
];

/// Plays every failure of one link.
async fn fail(name: &str, link: fn(&Links) -> &Link, check: impl Fn(Weather, &Outcome)) {
    let mut scene = Scene::set(spec().linked()).await;
    for (how, weather, time) in FAILURES {
        let cut = async |stack: &mut e2e::Stack| {
            link(stack.links()).becomes(weather);
            sleep(time).await;
            link(stack.links()).becomes(Weather::Clear);
        };
        let outcome = scene.play(&format!("{name}: {how}"), cut).await;
        let lost = outcome.streams.lost + outcome.arrivals.lost;
        assert_eq!(lost, 0, "{name}: {how}: the gateway answers everybody: {outcome:?}");
        check(weather, &outcome);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn between_gateway_and_engine() {
    let check = |weather, outcome: &Outcome| match weather {
        Weather::Blackhole | Weather::Reset => {
            assert!(outcome.arrivals.refused > 0, "{weather:?}: {outcome:?}");
            assert_eq!(outcome.streams.complete, 0, "{weather:?}: {outcome:?}");
        }
        Weather::Slow(_) | Weather::Clear => {
            assert_eq!(outcome.streams.complete, outcome.streams.total(), "{outcome:?}");
        }
    };
    fail("gateway - engine", |links| &links.gateway_engine, check).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn between_gateway_and_admission() {
    let check = |weather, outcome: &Outcome| {
        assert_eq!(outcome.streams.complete, outcome.streams.total(), "{weather:?}: {outcome:?}");
        assert!(outcome.arrivals.complete > 0, "{weather:?}: the fallback serves: {outcome:?}");
    };
    fail("gateway - admission", |links| &links.gateway_admission, check).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn between_admission_and_engine() {
    let check = |weather, outcome: &Outcome| {
        assert_eq!(outcome.streams.complete, outcome.streams.total(), "{weather:?}: {outcome:?}");
        assert!(outcome.arrivals.complete > 0, "{weather:?}: the fallback serves: {outcome:?}");
    };
    fail("admission - engine", |links| &links.admission_engine, check).await;
}
