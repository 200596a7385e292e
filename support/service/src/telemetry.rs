//! Logs and metrics.

use std::{
    io::{self, IsTerminal as _},
    net::TcpListener,
    time::Duration,
};

use anyhow::{Context as _, anyhow};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tracing_subscriber::EnvFilter;

/// How logs look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Settings of the logs, flattened into every service's own.
#[derive(Clone, Debug, clap::Args, serde::Serialize)]
pub struct Logs {
    /// What is logged: a level, or directives such as `info,engine_worker=debug`.
    #[arg(long, default_value = "info")]
    pub log: String,
    /// How logs look.
    #[arg(long, value_enum, default_value = "text")]
    pub log_format: LogFormat,
}

/// llama.cpp tells hundreds of details at "info", and the HTTP server calls every malformed request of
/// a stranger an error; a later directive for the same target wins.
const QUIET: &str = "llama-cpp-2=warn,llama_cpp_2=error,actix_http=off";

/// Histogram bounds in seconds, dense from a millisecond to the minute that a request may take.
const SECONDS: [f64; 22] = [
    0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0,
    3.0, 4.0, 5.0, 8.0, 15.0, 30.0, 60.0,
];

/// Histogram bounds of the parts of a thing, most of which are over in microseconds.
const PART_SECONDS: [f64; 18] = [
    1e-6, 2.5e-6, 5e-6, 1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 0.01, 0.025,
    0.1, 0.25, 0.5, 1.0,
];

/// Histogram bounds of rows in a batch, up to the largest batch.
const ROWS: [f64; 16] = [
    1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1_024.0, 2_048.0, 4_096.0, 8_192.0,
    16_384.0, 65_536.0,
];

/// Starts logging to standard error.
///
/// # Errors
/// `log` is not a filter, or logging was started before.
pub fn start_logs(logs: &Logs) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(format!("{QUIET},{}", logs.log))
        .with_context(|| format!("log: {:?} is not a log filter", logs.log))?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        // It would be told on the same standard error, whose disk may be full, and that panics.
        .log_internal_errors(false);
    match logs.log_format {
        LogFormat::Text => builder.with_ansi(io::stderr().is_terminal()).try_init(),
        LogFormat::Json => builder.json().try_init(),
    }
    .map_err(|error| anyhow!("logging was started before: {error}"))
}

/// Installs the metrics recorder. Must be called inside a tokio runtime: a task empties the
/// histograms' sample buffers every few seconds, so that memory stays flat when nobody scrapes.
///
/// # Errors
/// A recorder was installed before.
pub fn start_metrics() -> anyhow::Result<PrometheusHandle> {
    let handle = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".into()), &SECONDS)
        .and_then(|it| {
            it.set_buckets_for_metric(Matcher::Suffix("_part_seconds".into()), &PART_SECONDS)
        })
        .and_then(|it| it.set_buckets_for_metric(Matcher::Suffix("_rows".into()), &ROWS))
        .context("bad histogram bounds")?
        .install_recorder()
        .context("a metrics recorder was installed before")?;
    let upkeep = handle.clone();
    tokio::spawn(async move {
        let mut tick = tokio::time::interval(Duration::from_secs(5));
        loop {
            tick.tick().await;
            upkeep.run_upkeep();
        }
    });
    Ok(handle)
}

/// Serves `GET /metrics` to scrapers on a listener of its own until the process ends. Every other
/// path is answered with 404, and a connection is closed after its answer.
///
/// # Errors
/// The listener could not be handed to the runtime.
pub fn serve_metrics(listener: TcpListener, handle: PrometheusHandle) -> anyhow::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    tokio::spawn(async move {
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            let handle = handle.clone();
            let answer = async move { answer_scrape(stream, &handle).await };
            tokio::spawn(tokio::time::timeout(Duration::from_secs(5), answer));
        }
    });
    Ok(())
}

async fn answer_scrape(
    mut stream: tokio::net::TcpStream,
    handle: &PrometheusHandle,
) -> io::Result<()> {
    let mut head = Vec::new();
    while !head.windows(4).any(|window| window == b"\r\n\r\n") {
        let mut chunk = [0; 1024];
        let read = stream.read(&mut chunk).await?;
        if read == 0 || head.len() > 8 << 10 {
            return Ok(());
        }
        head.extend_from_slice(&chunk[..read]);
    }
    let (status, body) = if head.starts_with(b"GET /metrics ") {
        ("200 OK", handle.render())
    } else {
        ("404 Not Found", String::new())
    };
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/plain; version=0.0.4\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}
