//! Question: how far off is the model of step costs, on steps that it was not fitted to?
//!
//! Calibrates each layout as `engine-worker calibrate` does, then runs other steps and predicts each as a
//! scheduler would have. By kind of step: the error, and how far equal steps are apart, as parts of the time
//! that a step took. A model is as good as it should be if it is off by 5 % at the median and 15 % for
//! 95 of 100 steps, or by half as much again as equal steps are apart.
//!
//! `cargo bench --workspace --bench calibration`, on a machine that does nothing else. The model is that of
//! `make model`, or CADENCE_TEST_MODEL. Under `cargo test` it runs next to nothing.

#![expect(clippy::print_stdout, reason = "a benchmark prints")]

use std::{collections::BTreeMap, env, time::Duration};

use engine_worker::{
    EngineSettings, backend,
    calibration::{Calibrator, Machine, Provenance},
};
use service::{
    clock::Clock,
    settings::{Request, read},
};
use units::Span;

fn main() {
    let measured = env::args().any(|arg| arg == "--bench");
    let span = Span::from_secs(if measured { 50 } else { 4 });
    let layouts: &[&str] = if measured { &["streams", "unified"] } else { &["streams"] };
    for layout in layouts {
        let settings = settings(layout);
        let opened = backend::open(&settings).expect("a model; run `make model`");
        let clock = Clock::start();
        let calibrator = Calibrator { opened: &opened, settings: &settings, clock };
        let calibrated = calibrator.run(span, &mut |_| ()).expect("measured");
        let artifact = calibrated.artifact(nothing(), Duration::ZERO);
        let residuals = calibrator.check(&artifact, span, &mut |_| ()).expect("measured");
        println!("{layout}: {} steps, {:?}\n", artifact.steps, artifact.cost());
        println!(
            "| {layout} | steps | error, median | p95 | equal steps apart, median | p95 | holds |"
        );
        println!("|---|---|---|---|---|---|---|");
        for it in residuals {
            let [error, error_p95, spread, spread_p95] =
                [it.error_p50, it.error_p95, it.spread_p50, it.spread_p95].map(|it| it * 100.0);
            println!(
                "| {} | {} | {error:.1} % | {error_p95:.1} % | {spread:.1} % | {spread_p95:.1} % | {} |",
                it.kind,
                it.steps,
                if it.holds() { "yes" } else { "no" }
            );
        }
        println!();
    }
}

fn settings(layout: &str) -> EngineSettings {
    let fetched =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../.cache/models/SmolLM2-135M-Instruct.Q4_1.gguf");
    let model = env::var("CADENCE_TEST_MODEL").unwrap_or_else(|_| fetched.into());
    let threads = Machine::this().processors.to_string();
    let args = [
        "engine-worker",
        "--model",
        &model,
        "--layout",
        layout,
        "--threads",
        &threads,
        "--slots",
        "16",
    ];
    match read::<EngineSettings>(args.map(Into::into), &BTreeMap::new()) {
        Ok(Request::Run(settings)) => settings,
        other => panic!("{other:?}"),
    }
}

/// Nothing is written, so nobody will ask of what it is.
fn nothing() -> Provenance {
    Provenance {
        model_sha256: String::new(),
        model_bytes: 0,
        machine: Machine::this(),
        engine: String::new(),
        planner: String::new(),
        backend: String::new(),
    }
}
