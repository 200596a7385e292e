//! Runs the admission service.

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use admission_svc::{App, Settings};
use anyhow::{Context as _, anyhow};
use service::{net, settings, signal, telemetry};

fn main() -> ExitCode {
    let settings = match settings::load::<Settings>() {
        Ok(settings) => settings,
        Err(code) => return code,
    };
    match run(settings) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Not through the log, which may be what could not be started.
            let _ = writeln!(io::stderr(), "admission-svc: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(settings: Settings) -> anyhow::Result<()> {
    telemetry::start_logs(&settings.logs)?;
    let listener = net::bind(settings.listen)?;
    let metrics = settings.metrics_address().map_err(|reason| anyhow!(reason))?;
    let metrics = metrics.map(net::bind).transpose()?;
    // One thread for gRPC beside the actor's: a decision takes microseconds, waking a thread takes longer.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    runtime.block_on(async {
        if let Some(listener) = metrics {
            telemetry::serve_metrics(listener, telemetry::start_metrics()?)?;
            admission_svc::describe();
        }
        let (listen, engines) = (listener.local_addr()?, settings.engine.clone());
        let app = App::build(settings, listener).await?;
        tracing::info!(%listen, engines, "admission is up");
        app.run(signal::shutdown()?).await
    })
}
