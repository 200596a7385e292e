//! Addresses: our own, and those of peers.

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

/// Checks the address of a peer: `host:port` or `http://host:port`.
///
/// # Errors
/// A line that names the address and what is wrong with it.
pub fn check_peer(address: &str) -> Result<(), String> {
    let bare = match address.split_once("://") {
        None => address,
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => rest,
        Some(_) => return Err(format!("{address:?}: only http:// is supported")),
    };
    let odd = |char: char| char.is_whitespace() || char.is_control() || "/?#@".contains(char);
    if bare.is_empty() || bare.contains(odd) {
        return Err(format!("{address:?} is not host:port"));
    }
    // The last colon of an IPv6 address without a port is part of the address.
    let (host, port) = match bare.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, port),
        Some(_) | None => return Err(format!("{address:?} has no port")),
    };
    if host.is_empty() || host.contains(':') && !(host.starts_with('[') && host.ends_with(']')) {
        return Err(format!("{address:?} is not host:port"));
    }
    match port.parse::<u16>() {
        Ok(1..) if port.bytes().all(|byte| byte.is_ascii_digit()) => Ok(()),
        Ok(_) | Err(_) => Err(format!("{address:?}: the port must be 1 to 65535")),
    }
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

    #[test]
    fn peers_are_a_host_and_a_port() {
        for good in ["a:1", "127.0.0.1:50051", "http://engine:65535", "HTTP://a:1", "[::1]:1"] {
            assert_eq!(check_peer(good), Ok(()), "{good}");
        }
        for (bad, reason) in [
            ("", "is not host:port"),
            ("http://", "is not host:port"),
            ("a b:1", "is not host:port"),
            ("http://a:1/", "is not host:port"),
            (":1", "is not host:port"),
            ("::1", "is not host:port"),
            ("a", "has no port"),
            ("[::1]", "has no port"),
            ("a:", "the port must be 1 to 65535"),
            ("a:0", "the port must be 1 to 65535"),
            ("a:+1", "the port must be 1 to 65535"),
            ("a:65536", "the port must be 1 to 65535"),
            ("https://a:1", "only http:// is supported"),
            ("unix:///a", "only http:// is supported"),
        ] {
            let error = check_peer(bad).expect_err(bad);
            assert!(error.contains(reason), "{error:?} does not say {reason:?}");
        }
    }
}
