//! Runs the admission service.

use std::process::ExitCode;

use admission_svc::{App, Settings, cli};
use anyhow::anyhow;
use service::{
    exit::{self, refused},
    net, settings, signal, telemetry,
};

fn main() -> ExitCode {
    let args: Vec<_> = std::env::args_os().collect();
    if cli::is_asked(&args) {
        return exit::code("admission-svc", cli::run(&args));
    }
    let settings = match settings::load::<Settings>() {
        Ok(settings) => settings,
        Err(code) => return code,
    };
    exit::code("admission-svc", run(settings))
}

fn run(settings: Settings) -> anyhow::Result<()> {
    telemetry::start_logs(&settings.logs).map_err(refused)?;
    let listener = net::bind(settings.listen).map_err(refused)?;
    let metrics = settings.metrics_address().map_err(|reason| refused(anyhow!(reason)))?;
    let metrics = metrics.map(net::bind).transpose().map_err(refused)?;
    actix::System::new().block_on(async {
        if let Some(listener) = metrics {
            telemetry::serve_metrics(listener, telemetry::start_metrics()?)?;
            admission_svc::describe();
        }
        let (listen, engines) = (listener.local_addr()?, settings.engine.clone());
        let app = App::build(settings, listener).map_err(refused)?;
        tracing::info!(%listen, engines, "admission is up");
        app.run(signal::shutdown()?).await
    })
}
