//! The engine worker's process.

use std::process::ExitCode;

use engine_worker::{App, EngineSettings};

fn main() -> ExitCode {
    let settings: EngineSettings = match service::settings::load() {
        Ok(settings) => settings,
        Err(code) => return code,
    };
    match run(settings) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

/// One thread for gRPC: waking another one takes longer than most calls, and the model wants the
/// processors.
#[tokio::main(flavor = "current_thread")]
async fn run(settings: EngineSettings) -> anyhow::Result<()> {
    service::telemetry::start_logs(&settings.logs)?;
    let app = App::build(settings).await?;
    app.run(service::signal::shutdown()?).await
}
