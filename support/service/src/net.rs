//! Listening sockets.

use std::{
    io::ErrorKind,
    net::{SocketAddr, TcpListener},
};

use anyhow::{Context as _, anyhow};

/// Binds a listening socket, non-blocking. Called before anything slow, so that a busy port is told
/// at once.
///
/// # Errors
/// One line that names the address and the reason.
pub fn bind(address: SocketAddr) -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind(address).map_err(|error| {
        if error.kind() == ErrorKind::AddrInUse {
            anyhow!("address {address} is already in use")
        } else {
            anyhow!("cannot listen on {address}: {error}")
        }
    })?;
    listener.set_nonblocking(true).context("cannot make the listener non-blocking")?;
    Ok(listener)
}
