//! Listening sockets.

use std::{
    io::ErrorKind,
    net::{SocketAddr, TcpListener},
};

use anyhow::{Context as _, anyhow};
use socket2::SockRef;

/// Connections that may wait to be accepted; the system may lower it. With the standard library's 128 a
/// burst overflows, and who is turned away knocks again a second later, health checks included.
const BACKLOG: i32 = 4_096;

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
    SockRef::from(&listener).listen(BACKLOG).context("cannot make room for waiting connections")?;
    listener.set_nonblocking(true).context("cannot make the listener non-blocking")?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::*;

    #[test]
    fn a_burst_finds_room_before_anybody_accepts() {
        let listener = bind(([127, 0, 0, 1], 0).into()).expect("a free port");
        let address = listener.local_addr().expect("an address");
        let connect =
            || TcpStream::connect_timeout(&address, std::time::Duration::from_millis(500));
        let waiting: Vec<_> = (0..400).map(|_| connect().expect("room")).collect();
        assert_eq!(waiting.len(), 400);
    }

    #[test]
    fn a_busy_address_is_named() {
        let listener = bind(([127, 0, 0, 1], 0).into()).expect("a free port");
        let address = listener.local_addr().expect("an address");
        let error = bind(address).expect_err("it is taken");
        assert_eq!(error.to_string(), format!("address {address} is already in use"));
    }
}
