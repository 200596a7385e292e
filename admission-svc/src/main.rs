//! Runs the admission service.

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use admission_svc::{App, Settings};
use anyhow::anyhow;
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
    actix::System::new().block_on(async {
        if let Some(listener) = metrics {
            telemetry::serve_metrics(listener, telemetry::start_metrics()?)?;
            admission_svc::describe();
        }
        let (listen, engines) = (listener.local_addr()?, settings.engine.clone());
        let app = App::build(settings, listener)?;
        tracing::info!(%listen, engines, "admission is up");
        app.run(signal::shutdown()?).await
    })
}
