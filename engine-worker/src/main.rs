//! The engine worker's process.

use std::{pin::pin, process::ExitCode};

use engine_worker::{App, EngineSettings, cli, profile};
use service::exit::refused;

fn main() -> ExitCode {
    let args: Vec<_> = std::env::args_os().collect();
    if cli::is_asked(&args) {
        return cli::run(&args);
    }
    let settings: EngineSettings = match service::settings::load() {
        Ok(settings) => settings,
        Err(code) => return code,
    };
    service::exit::code("engine-worker", run(settings))
}

/// One thread for gRPC: waking another one takes longer than most calls, and the model wants the
/// processors.
#[tokio::main(flavor = "current_thread")]
async fn run(settings: EngineSettings) -> anyhow::Result<()> {
    service::telemetry::start_logs(&settings.logs).map_err(refused)?;
    let mut stop = pin!(service::signal::shutdown()?);
    let target = profile::Target::open(&settings).map_err(refused)?;
    let app = tokio::select! {
        app = App::build(settings) => app.map_err(refused)?,
        () = &mut stop => return Ok(()),
    };
    let Some(target) = target else { return app.run(stop).await };
    let profile = target.start()?;
    let told = async {
        stop.await;
        // Before the drain, which may be cut short.
        profile.stop();
    };
    let outcome = app.run(told).await;
    profile.finish();
    outcome
}
