//! Where the processes of a stack listen, and where they find each other.

use std::net::{Ipv4Addr, SocketAddr};

use ports::free_port;

use crate::{Link, Spec};

/// The connections between the processes.
#[derive(Debug)]
pub struct Links {
    /// From every gateway to the engine.
    pub gateway_engine: Link,
    /// From every gateway to admission.
    pub gateway_admission: Link,
    /// From admission to the engine.
    pub admission_engine: Link,
}

/// Ports on loopback, and what lies between them.
#[derive(Debug)]
pub(crate) struct Wiring {
    /// The first is the one that serves while it can; links lead to it alone.
    pub(crate) engines: Vec<Doors>,
    pub(crate) admission: Doors,
    pub(crate) gateways: Vec<u16>,
    pub(crate) links: Option<Links>,
}

/// The ports of one process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Doors {
    pub(crate) grpc: u16,
    pub(crate) metrics: u16,
}

impl Wiring {
    pub(crate) async fn of(spec: &Spec) -> Self {
        let engines = 1 + spec.spares;
        let doors = || Doors { grpc: free_port(), metrics: free_port() };
        let engines: Vec<Doors> = (0..engines).map(|_| doors()).collect();
        let admission = doors();
        let gateways = (0..spec.gateways).map(|_| free_port()).collect();
        let links = if spec.linked {
            Some(Links::between(engines[0].grpc, admission.grpc).await)
        } else {
            None
        };
        Self { engines, admission, gateways, links }
    }

    pub(crate) fn engine_flags(&self, number: usize) -> Vec<String> {
        self.engines[number].flags()
    }

    pub(crate) fn admission_flags(&self) -> Vec<String> {
        let engines = self.engines(|links| &links.admission_engine);
        let mut flags = self.admission.flags();
        flags.extend(["--engine".to_owned(), engines]);
        flags
    }

    pub(crate) fn gateway_flags(&self, number: usize) -> Vec<String> {
        let engines = self.engines(|links| &links.gateway_engine);
        let admission = self.links.as_ref().map(|links| links.gateway_admission.address());
        let admission = admission.unwrap_or_else(|| local(self.admission.grpc));
        let mut flags = flags([("--listen", local(self.gateways[number]))]);
        flags.extend(["--engine".to_owned(), engines]);
        flags.extend(["--admission".to_owned(), admission.to_string()]);
        flags
    }

    /// Addresses of the engines, separated by commas.
    fn engines(&self, link: impl Fn(&Links) -> &Link) -> String {
        let mut addresses: Vec<SocketAddr> =
            self.engines.iter().map(|doors| local(doors.grpc)).collect();
        if let Some(links) = &self.links {
            addresses[0] = link(links).address();
        }
        addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
    }
}

impl Links {
    async fn between(engine: u16, admission: u16) -> Self {
        Self {
            gateway_engine: Link::to(local(engine)).await,
            gateway_admission: Link::to(local(admission)).await,
            admission_engine: Link::to(local(engine)).await,
        }
    }
}

impl Doors {
    fn flags(self) -> Vec<String> {
        flags([("--listen", local(self.grpc)), ("--metrics-listen", local(self.metrics))])
    }
}

fn flags<const N: usize>(pairs: [(&str, SocketAddr); N]) -> Vec<String> {
    pairs.iter().flat_map(|(flag, address)| [(*flag).to_owned(), address.to_string()]).collect()
}

fn local(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}
