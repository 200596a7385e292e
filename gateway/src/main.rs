//! The gateway: OpenAI-compatible HTTP in front of the engine.

use std::process::ExitCode;

use gateway::{App, Settings};
use service::{
    exit::{self, refused},
    net, settings, signal, telemetry,
};
use tracing::info;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let settings = match settings::load::<Settings>() {
        Ok(settings) => settings,
        Err(code) => return code,
    };
    exit::code("gateway", serve(settings))
}

#[tokio::main(flavor = "multi_thread", worker_threads = 1)]
async fn serve(settings: Settings) -> anyhow::Result<()> {
    telemetry::start_logs(&settings.logs).map_err(refused)?;
    let listener = net::bind(settings.listen).map_err(refused)?;
    let app = App::build(settings, listener, telemetry::start_metrics()?).map_err(refused)?;
    info!(address = %app.address(), "listening");
    let (stop, hurry) = signal::shutdown_twice()?;
    app.run(stop, hurry).await?;
    info!("stopped");
    Ok(())
}
