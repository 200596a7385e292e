//! The gateway: OpenAI-compatible HTTP in front of the engine.

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use gateway::{App, Settings};
use service::{net, settings, signal, telemetry};
use tracing::info;

fn main() -> ExitCode {
    let settings = match settings::load::<Settings>() {
        Ok(settings) => settings,
        Err(code) => return code,
    };
    match serve(settings) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Not through the log, which may be what could not be started.
            let _ = writeln!(io::stderr(), "gateway: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[tokio::main(flavor = "multi_thread", worker_threads = 1)]
async fn serve(settings: Settings) -> anyhow::Result<()> {
    telemetry::start_logs(&settings.logs)?;
    let listener = net::bind(settings.listen)?;
    let app = App::build(settings, listener, telemetry::start_metrics()?)?;
    info!(address = %app.address(), "listening");
    app.run(signal::shutdown()?).await?;
    info!("stopped");
    Ok(())
}
