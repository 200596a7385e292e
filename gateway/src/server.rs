//! The HTTP server: one accept loop, worker threads with a single-threaded runtime each.

use std::{net::TcpListener, sync::Arc, time::Duration};

use actix_http::HttpService;
use actix_service::{ServiceFactoryExt as _, fn_service, map_config};
use actix_web::{
    App,
    dev::{AppConfig, Server},
    middleware::{NormalizePath, from_fn},
    web::Data,
};
use tokio::net::TcpStream;

use crate::{
    edge, route,
    shared::{Gateway, Shared},
    stall::Stalling,
};

/// How long a connection may take to close after its last answer.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// How long connections get when the server stops; answers have ended before.
const STOP_TIMEOUT_SECS: u64 = 1;

/// Starts serving. Must be called inside a tokio runtime; signals are the caller's.
///
/// # Errors
/// The listener cannot be used, or a thread cannot be started.
pub(crate) fn start(shared: &Arc<Shared>, listener: TcpListener) -> anyhow::Result<Server> {
    let mut builder = Server::build().disable_signals().shutdown_timeout(STOP_TIMEOUT_SECS);
    if shared.settings.workers > 0 {
        builder = builder.workers(shared.settings.workers.into());
    }
    let stopping = builder.graceful_shutdown_signal();
    let shared = Arc::clone(shared);
    let server = builder.listen("gateway", listener, move || {
        let settings = &shared.settings;
        // Called on each worker's own thread: its connections to the upstreams live there.
        let gateway = Data::new(Gateway::connect(Arc::clone(&shared)));
        let app = App::new()
            .app_data(gateway)
            .configure(route::configure)
            .wrap(from_fn(edge::wrap))
            .wrap(NormalizePath::trim());
        let stopping = stopping.clone();
        let http = HttpService::build()
            .keep_alive(Duration::from_millis(settings.keep_alive_ms))
            .client_request_timeout(Duration::from_millis(settings.head_timeout_ms))
            .client_disconnect_timeout(CLOSE_TIMEOUT)
            // With the default a client that went away would go unnoticed until the next write.
            .h1_allow_half_closed(false)
            .graceful_shutdown_signal(move || {
                let stopping = stopping.clone();
                async move { stopping.notified().await }
            })
            .h1(map_config(app, |()| AppConfig::default()));
        let stall_limit = Duration::from_millis(settings.write_timeout_ms);
        fn_service(move |connection: TcpStream| async move {
            // A token is a small write that nobody should wait for.
            let _ = connection.set_nodelay(true);
            let peer = connection.peer_addr().ok();
            Ok((Stalling::new(connection, stall_limit), peer))
        })
        .and_then(http)
    })?;
    Ok(server.run())
}
