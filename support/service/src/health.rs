//! `--healthcheck`: asks the process that serves under the same settings how it is. For containers,
//! whose image then needs no HTTP client.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use anyhow::{Context as _, bail, ensure};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};
use tonic::Code;
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};

use crate::grpc;

/// How long the process may take to answer. Below the limit of the containers' health checks, so that
/// theirs is the better message.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);
/// Where the status code stands in an HTTP answer.
const STATUS: std::ops::Range<usize> = 9..12;

/// How a service is asked for its health.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Probe {
    /// With `GET path`, which answers 200.
    Http {
        /// Where the service listens.
        listen: SocketAddr,
        /// An absolute path.
        path: &'static str,
    },
    /// With gRPC's health protocol.
    Grpc {
        /// Where the service listens.
        listen: SocketAddr,
        /// The full name of the gRPC service that must be serving.
        service: &'static str,
    },
}

impl Probe {
    /// Asks, and waits at most three seconds for the answer. Blocks; must not be called inside a runtime.
    ///
    /// # Errors
    /// Nobody listens, nobody answers, or the answer is a bad one.
    pub fn run(&self) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(self.ask(ANSWER_WITHIN))
    }

    async fn ask(&self, limit: Duration) -> anyhow::Result<()> {
        let asked = async {
            match *self {
                Self::Http { listen, path } => ask_http(reachable(listen), path).await,
                Self::Grpc { listen, service } => ask_grpc(reachable(listen), service).await,
            }
        };
        timeout(limit, asked).await.with_context(|| format!("no answer within {limit:?}"))?
    }
}

/// Where a process that listens there can be reached from the same machine.
fn reachable(mut listen: SocketAddr) -> SocketAddr {
    if listen.ip().is_unspecified() {
        listen.set_ip(match listen.ip() {
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    listen
}

async fn ask_http(address: SocketAddr, path: &str) -> anyhow::Result<()> {
    let connected = TcpStream::connect(address).await;
    let mut stream = connected.with_context(|| format!("cannot connect to {address}"))?;
    let head = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await?;
    let mut begin = [0; STATUS.end];
    stream.read_exact(&mut begin).await.context("no answer")?;
    let status = String::from_utf8_lossy(&begin[STATUS]);
    ensure!(begin.starts_with(b"HTTP/1.1 "), "the answer is not HTTP");
    ensure!(status == "200", "{path} answered {status}");
    Ok(())
}

async fn ask_grpc(address: SocketAddr, service: &str) -> anyhow::Result<()> {
    let mut client = HealthClient::new(grpc::connect_lazily(&address.to_string())?);
    let request = HealthCheckRequest { service: service.into() };
    match client.check(request).await {
        Ok(response) => match response.into_inner().status() {
            ServingStatus::Serving => Ok(()),
            status @ (ServingStatus::NotServing
            | ServingStatus::Unknown
            | ServingStatus::ServiceUnknown) => bail!("{service} is {}", status.as_str_name()),
        },
        Err(status) if status.code() == Code::NotFound => bail!("{service} is not served here"),
        Err(status) => bail!("{address}: {}", status.message()),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;
    use crate::net;

    const NAME: &str = "cadence.v1.Engine";
    const SOON: Duration = Duration::from_millis(200);

    fn bound() -> (TcpListener, SocketAddr) {
        let listener = net::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        (listener, address)
    }

    /// What is said about a server that answers every request with `answer`.
    async fn http(answer: &'static [u8]) -> Result<(), String> {
        let (listener, listen) = bound();
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = [0; 512];
            let read = stream.read(&mut head).await.unwrap();
            assert!(head[..read].starts_with(b"GET /health HTTP/1.1\r\n"));
            stream.write_all(answer).await.unwrap();
        });
        said(Probe::Http { listen, path: "/health" }).await
    }

    async fn said(probe: Probe) -> Result<(), String> {
        probe.ask(10 * ANSWER_WITHIN).await.map_err(|error| format!("{error:#}"))
    }

    #[tokio::test]
    async fn http_is_healthy_with_200_alone() {
        assert_eq!(http(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await, Ok(()));
        let refused = http(b"HTTP/1.1 503 Service Unavailable\r\n\r\n").await;
        assert_eq!(refused, Err("/health answered 503".into()));
        assert_eq!(http(b"SSH-2.0-OpenSSH_9.2\r\n").await, Err("the answer is not HTTP".into()));
        assert!(http(b"HTTP").await.unwrap_err().starts_with("no answer: "));
    }

    #[tokio::test]
    async fn grpc_is_healthy_while_its_service_serves() {
        let (listener, listen) = bound();
        let (router, reporter) = grpc::server().unwrap();
        tokio::spawn(grpc::serve(router, listener, std::future::pending()));
        let ask = || said(Probe::Grpc { listen, service: NAME });
        assert_eq!(ask().await, Err(format!("{NAME} is not served here")));
        reporter.set_service_status(NAME, tonic_health::ServingStatus::Serving).await;
        assert_eq!(ask().await, Ok(()));
        reporter.set_service_status(NAME, tonic_health::ServingStatus::NotServing).await;
        assert_eq!(ask().await, Err(format!("{NAME} is NOT_SERVING")));
    }

    #[tokio::test]
    async fn who_does_not_answer_is_not_healthy() {
        let (listener, listen) = bound();
        let probes =
            [Probe::Http { listen, path: "/health" }, Probe::Grpc { listen, service: NAME }];
        for probe in &probes {
            let error = probe.ask(SOON).await.expect_err("the listener never accepts");
            assert!(error.to_string().contains("no answer within 200ms"), "{error}");
        }
        drop(listener);
        for probe in probes {
            said(probe).await.expect_err("nobody listens");
        }
    }

    #[test]
    fn a_wildcard_is_reached_on_loopback() {
        for (listen, reached) in [
            ("0.0.0.0:8000", "127.0.0.1:8000"),
            ("[::]:8000", "[::1]:8000"),
            ("192.0.2.1:8000", "192.0.2.1:8000"),
        ] {
            assert_eq!(reachable(listen.parse().unwrap()).to_string(), reached);
        }
    }
}
