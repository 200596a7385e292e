//! Ports on loopback for the processes of tests, that stay free until those listen.
//!
//! The system's own choice (port 0) is no help to a process that is started later: between the choice and the
//! start the same port may become the near end of anybody's connection. So these lie below the range
//! that the system chooses from, and each is claimed by a UDP socket of the same number, which nobody here uses
//! otherwise: another test, in this process or another, passes it by.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket},
    process,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU16, Ordering},
    },
};

/// Below it other programs are at home.
const FIRST: u16 = 10_240;
/// What systems choose from begins here or higher, unless Linux says otherwise.
const CHOSEN_BY_SYSTEM: u16 = 32_768;

/// Claims last as long as the process: its children may outlive the value that named their ports.
static CLAIMS: Mutex<Vec<UdpSocket>> = Mutex::new(Vec::new());
static NEXT: AtomicU16 = AtomicU16::new(0);

/// A port of loopback on which nobody listens, and which nobody gets as long as this process lives.
///
/// # Panics
/// There is none.
#[must_use]
pub fn free_port() -> u16 {
    let range = FIRST..end();
    let count = range.end - range.start;
    // Processes that run side by side begin apart.
    let start = (process::id() % u32::from(count)).wrapping_mul(61);
    for _ in 0..count {
        let step = u32::from(NEXT.fetch_add(1, Ordering::Relaxed));
        let offset = u16::try_from((start + step) % u32::from(count)).expect("below the count");
        let port = range.start + offset;
        if let Some(claim) = claim(port) {
            CLAIMS.lock().unwrap_or_else(PoisonError::into_inner).push(claim);
            return port;
        }
    }
    panic!("no port of {range:?} is free");
}

/// [`free_port`] as an address.
#[must_use]
pub fn free_address() -> SocketAddr {
    local(free_port())
}

fn claim(port: u16) -> Option<UdpSocket> {
    let claim = UdpSocket::bind(local(port)).ok()?;
    TcpListener::bind(local(port)).ok().map(|_| claim)
}

fn local(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

/// Where the ports begin that the system gives to connections.
fn end() -> u16 {
    let said = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok();
    let first = said.and_then(|text| text.split_whitespace().next()?.parse().ok());
    first.filter(|first| *first > FIRST + 1_000).unwrap_or(CHOSEN_BY_SYSTEM)
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, thread};

    use super::*;

    #[test]
    fn no_port_comes_twice() {
        let several = || (0..50).map(|_| free_port()).collect::<Vec<_>>();
        let threads: Vec<_> = (0..4).map(|_| thread::spawn(several)).collect();
        let ports = threads.into_iter().flat_map(|it| it.join().expect("it does not panic"));
        let ports: Vec<u16> = ports.collect();
        assert_eq!(ports.iter().collect::<BTreeSet<_>>().len(), 200, "{ports:?}");
        assert!(ports.iter().all(|port| *port < end()), "{ports:?}");
    }

    #[test]
    fn one_that_somebody_uses_is_passed_by() {
        assert!(claim(free_port()).is_none(), "it is claimed");
        let listening = TcpListener::bind(local(0)).expect("the system has one");
        let port = listening.local_addr().expect("an address").port();
        assert!(claim(port).is_none(), "somebody listens there");
    }
}
