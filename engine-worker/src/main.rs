//! The engine worker's process.

use std::{
    io::{self, Write as _},
    pin::pin,
    process::ExitCode,
};

use engine_worker::{App, EngineSettings};

fn main() -> ExitCode {
    let settings: EngineSettings = match service::settings::load() {
        Ok(settings) => settings,
        Err(code) => return code,
    };
    match run(settings) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Not through the log, which may be what could not be started.
            let _ = writeln!(io::stderr(), "engine-worker: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// One thread for gRPC: waking another one takes longer than most calls, and the model wants the
/// processors.
#[tokio::main(flavor = "current_thread")]
async fn run(settings: EngineSettings) -> anyhow::Result<()> {
    service::telemetry::start_logs(&settings.logs)?;
    let mut stop = pin!(service::signal::shutdown()?);
    let app = tokio::select! {
        app = App::build(settings) => app?,
        () = &mut stop => return Ok(()),
    };
    app.run(stop).await
}
