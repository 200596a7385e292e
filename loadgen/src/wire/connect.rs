//! Opening connections.

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use anyhow::Context as _;
use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;

use super::{Class, Failure, Target, Trust, pool::Pool, tls};

/// Bytes that a connection buffers in each direction.
const BUFFER: usize = 64 * 1024;

/// The sending half of a connection.
pub(super) type Sender = http1::SendRequest<Full<Bytes>>;

/// Connections to one server.
pub(crate) struct Client {
    pub(crate) target: Target,
    addresses: Vec<SocketAddr>,
    /// Which address worked last.
    preferred: AtomicUsize,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    pool: Arc<Pool>,
}

impl Client {
    /// Looks the server's name up, once: no request waits for a name server. Connects to nobody yet.
    ///
    /// # Errors
    /// The name is not known, or TLS cannot be set up.
    pub(crate) async fn new(target: Target, trust: &Trust) -> anyhow::Result<Self> {
        let unknown = || format!("cannot find the address of {}", target.host);
        let found = tokio::net::lookup_host((target.host.as_str(), target.port)).await;
        let addresses: Vec<_> = found.with_context(unknown)?.collect();
        anyhow::ensure!(!addresses.is_empty(), unknown());
        let tls = target
            .tls
            .then(|| anyhow::Ok((trust.connector()?, tls::server_name(&target.host)?)))
            .transpose()?;
        let preferred = AtomicUsize::new(0);
        Ok(Self { target, addresses, preferred, tls, pool: Arc::default() })
    }

    /// An idle connection.
    pub(super) fn idle(&self) -> Option<Sender> {
        self.pool.take()
    }

    /// Where connections wait.
    pub(super) fn pool(&self) -> Arc<Pool> {
        Arc::clone(&self.pool)
    }

    /// A new connection.
    pub(super) async fn connect(&self) -> Result<Sender, Failure> {
        let stream = self.dial().await.map_err(|error| Failure::of(Class::Connect, &error))?;
        match &self.tls {
            None => handshake(stream).await,
            Some((connector, name)) => {
                let secured = connector.connect(name.clone(), stream).await;
                handshake(secured.map_err(|error| Failure::of(Class::Tls, &error))?).await
            }
        }
    }

    /// Tries every address, the one that worked last first.
    async fn dial(&self) -> io::Result<TcpStream> {
        let first = self.preferred.load(Ordering::Relaxed);
        let mut last = io::Error::other("no address");
        for step in 0..self.addresses.len() {
            let which = (first + step) % self.addresses.len();
            match TcpStream::connect(self.addresses[which]).await {
                Ok(stream) => {
                    self.preferred.store(which, Ordering::Relaxed);
                    stream.set_nodelay(true)?;
                    return Ok(stream);
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

async fn handshake<S>(stream: S) -> Result<Sender, Failure>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut builder = http1::Builder::new();
    builder.max_buf_size(BUFFER);
    let shaken = builder.handshake(TokioIo::new(stream)).await;
    let (sender, connection) = shaken.map_err(|error| Failure::of(Class::Protocol, &error))?;
    // Ends with the connection: when the server closes it, or nobody holds its sender and body any more.
    tokio::spawn(async move {
        // Whoever waits for the answer hears of it too.
        let _ = connection.await;
    });
    Ok(sender)
}
