//! The HTTP server: one accept loop, worker threads with a single-threaded runtime each.

use std::{
    io,
    net::{SocketAddr, TcpListener},
    sync::Arc,
    time::Duration,
};

use actix_http::{HttpService, KeepAlive, error::DispatchError};
use actix_service::{ServiceFactoryExt as _, fn_service, map_config};
use actix_web::{
    App,
    dev::{AppConfig, Server},
    middleware::{NormalizePath, from_fn},
    web::Data,
};
use tokio::net::TcpStream;

use crate::{
    connection::{Connection, Progress, Stalling, turn_away},
    edge, route,
    shared::{Gateway, Shared},
};

type Client = Connection<Stalling<TcpStream>>;

/// How long a connection may take to close after its last answer.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// How long connections get when the server stops; answers have ended before.
const STOP_TIMEOUT_SECS: u64 = 1;

/// Starts serving. Must be called inside a tokio runtime; signals are the caller's.
///
/// # Errors
/// The listener cannot be used, or a thread cannot be started.
pub(crate) fn start(shared: &Arc<Shared>, listener: TcpListener) -> anyhow::Result<Server> {
    let mut builder = Server::build()
        .disable_signals()
        .shutdown_timeout(STOP_TIMEOUT_SECS)
        // Of each thread: the seats bound the connections, and whoever finds none is to be told.
        .max_concurrent_connections(shared.seats.ceiling());
    if shared.settings.workers > 0 {
        builder = builder.workers(shared.settings.workers.into());
    }
    let stopping = builder.graceful_shutdown_signal();
    let shared = Arc::clone(shared);
    let server = builder.listen("gateway", listener, move || {
        // Called on each worker's own thread: its connections to the upstreams live there.
        let gateway = Data::new(Gateway::connect(Arc::clone(&shared)));
        let app = App::new()
            .app_data(gateway)
            .configure(route::configure)
            .wrap(from_fn(edge::wrap))
            .wrap(NormalizePath::trim());
        let stopping = stopping.clone();
        let http = HttpService::build()
            // The connection keeps the time, of every head and not only of the first.
            .keep_alive(KeepAlive::Os)
            .client_request_timeout(Duration::ZERO)
            .client_disconnect_timeout(CLOSE_TIMEOUT)
            // With the default a client that went away would go unnoticed until the next write.
            .h1_allow_half_closed(false)
            .graceful_shutdown_signal(move || {
                let stopping = stopping.clone();
                async move { stopping.notified().await }
            })
            .on_connect_ext(|connection: &Client, data| {
                data.insert(connection.progress());
            })
            .h1(map_config(app, |()| AppConfig::default()));
        let shared = Arc::clone(&shared);
        fn_service(move |socket| welcome(Arc::clone(&shared), socket)).and_then(http)
    })?;
    Ok(server.run())
}

/// Gives a new connection its limits, or turns it away.
async fn welcome(
    shared: Arc<Shared>,
    socket: TcpStream,
) -> Result<(Client, Option<SocketAddr>), DispatchError> {
    // A token is a small write that nobody should wait for.
    let _ = socket.set_nodelay(true);
    let peer = socket.peer_addr().ok();
    let Some(seat) = shared.seats.take() else {
        turn_away(socket, &shared.cors, &shared.seats).await;
        return Err(DispatchError::Io(io::ErrorKind::ConnectionRefused.into()));
    };
    let http = &shared.settings.http;
    let progress = Progress::start();
    let socket = Stalling::new(socket, http.write_limits(), progress.clone());
    let cors = Arc::clone(&shared.cors);
    let connection = Connection::new(socket, progress, http.head_limits(), cors, seat);
    Ok((connection, peer))
}
