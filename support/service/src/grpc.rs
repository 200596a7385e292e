//! Defaults of gRPC connections and servers.

use std::{net::TcpListener, time::Duration};

use anyhow::Context as _;
use tonic::transport::{
    Channel, Endpoint, Server,
    server::{Router, TcpIncoming},
};
use tonic_health::server::HealthReporter;

/// A peer that has not answered a keep-alive ping for [`PING_TIMEOUT`] is gone.
pub const PING_EVERY: Duration = Duration::from_secs(1);
/// See [`PING_EVERY`].
pub const PING_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a connection attempt may take.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// What one stream may have under way to a client that does not read it, in bytes.
const STREAM_WINDOW: u32 = 256 << 10;
/// What a whole connection may have under way. So much more than a stream's share, that streams whose
/// readers stall cannot hold up the others.
const CONNECTION_WINDOW: u32 = 1 << 30;
/// Calls that may be given up before the server has looked at them. With the default of 20, a burst of
/// clients that leave at once would end the connection for everybody on it.
const UNSEEN_RESETS_MAX: usize = 1 << 16;

/// A connection to `address` (`host:port` or a `http://` URL) that is made on first use and again
/// whenever it is lost. Must be called inside a tokio runtime.
///
/// # Errors
/// The address is not one.
pub fn connect_lazily(address: &str) -> anyhow::Result<Channel> {
    let url = if address.contains("://") { address.into() } else { format!("http://{address}") };
    let endpoint =
        Endpoint::from_shared(url).with_context(|| format!("{address:?} is not an address"))?;
    Ok(endpoint
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_TIMEOUT)
        .keep_alive_while_idle(true)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .connect_lazy())
}

/// A server with keep-alive, gRPC health and reflection of `cadence.v1`. Add services to the router,
/// tell the reporter what is serving, and hand both to [`serve`].
///
/// # Errors
/// The descriptors cannot be read, which is a build fault.
pub fn server() -> anyhow::Result<(Router, HealthReporter)> {
    let (reporter, health) = tonic_health::server::health_reporter();
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(proto::DESCRIPTORS)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .build_v1()
        .context("cannot read the descriptors")?;
    let router = Server::builder()
        .tcp_nodelay(true)
        .http2_keepalive_interval(Some(PING_EVERY))
        .http2_keepalive_timeout(Some(PING_TIMEOUT))
        .http2_max_pending_accept_reset_streams(Some(UNSEEN_RESETS_MAX))
        .add_service(health)
        .add_service(reflection);
    Ok((router, reporter))
}

/// Serves until `stop` completes, then lets open calls finish.
///
/// # Errors
/// The listener fails.
pub async fn serve(
    router: Router,
    listener: TcpListener,
    stop: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    router.serve_with_incoming_shutdown(incoming, stop).await.context("the gRPC server failed")
}
