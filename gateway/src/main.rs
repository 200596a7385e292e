//! The gateway: OpenAI-compatible HTTP in front of the engine.

use std::process::ExitCode;

use gateway::{App, Settings};
use service::{net, settings, signal, telemetry};
use tracing::{error, info};

fn main() -> ExitCode {
    let settings = match settings::load::<Settings>() {
        Ok(settings) => settings,
        Err(code) => return code,
    };
    match serve(settings) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            error!("{error:#}");
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
