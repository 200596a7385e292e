//! A TCP connection between two processes that can be cut, choked and mended.

use std::{io, net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{
        TcpListener, TcpStream,
        tcp::{ReadHalf, WriteHalf},
    },
    sync::watch,
};

/// What becomes of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weather {
    /// They pass.
    Clear,
    /// Connections are taken, stay open, and nothing passes: a dropped network.
    Blackhole,
    /// Connections are reset, old and new.
    Reset,
    /// Whatever arrives at once is passed on this much later.
    Slow(Duration),
}

/// A proxy in front of one address. Ends with its runtime.
#[derive(Debug)]
pub struct Link {
    address: SocketAddr,
    weather: watch::Sender<Weather>,
}

impl Link {
    /// A clear link to `target`, which need not listen yet. Must be called inside a tokio runtime.
    ///
    /// # Panics
    /// Loopback has no free port.
    pub async fn to(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let (weather, seen) = watch::channel(Weather::Clear);
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let seen = seen.clone();
                // A connection that breaks is what links are for.
                tokio::spawn(async move { drop(connect(near, target, seen).await) });
            }
        });
        Self { address, weather }
    }

    /// Where to connect instead of the target.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes the weather for open connections and new ones.
    pub fn becomes(&self, weather: Weather) {
        self.weather.send_replace(weather);
    }
}

async fn connect(
    mut near: TcpStream,
    target: SocketAddr,
    mut weather: watch::Receiver<Weather>,
) -> io::Result<()> {
    near.set_nodelay(true)?;
    // Under a blackhole the caller believes that it has a connection.
    let mut clears = weather.clone();
    tokio::select! {
        () = passable(&mut clears) => {}
        () = reset(&mut weather) => return near.set_zero_linger(),
    }
    let mut far = TcpStream::connect(target).await?;
    far.set_nodelay(true)?;
    let cut = {
        let (near_read, near_write) = near.split();
        let (far_read, far_write) = far.split();
        let there = pump(near_read, far_write, weather.clone());
        let back = pump(far_read, near_write, weather.clone());
        tokio::select! {
            passed = async { tokio::try_join!(there, back) } => passed.is_err(),
            () = reset(&mut weather) => true,
        }
    };
    if cut {
        // The close then is a reset, as an error on one side is for the other.
        near.set_zero_linger()?;
        far.set_zero_linger()?;
    }
    Ok(())
}

async fn pump(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    mut weather: watch::Receiver<Weather>,
) -> io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let read = from.read(&mut buffer).await?;
        passable(&mut weather).await;
        if read == 0 {
            return to.shutdown().await;
        }
        to.write_all(&buffer[..read]).await?;
    }
}

/// Returns when what has arrived may pass.
async fn passable(weather: &mut watch::Receiver<Weather>) {
    let open = |weather: &Weather| matches!(weather, Weather::Clear | Weather::Slow(_));
    // A link that is gone passes nothing more.
    let Ok(weather) = weather.wait_for(open).await.map(|weather| *weather) else {
        return std::future::pending().await;
    };
    if let Weather::Slow(delay) = weather {
        tokio::time::sleep(delay).await;
    }
}

/// Returns when connections are reset.
async fn reset(weather: &mut watch::Receiver<Weather>) {
    if weather.wait_for(|weather| *weather == Weather::Reset).await.is_err() {
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A link to a server that echoes.
    async fn link() -> Link {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut read, mut write) = stream.split();
                    tokio::io::copy(&mut read, &mut write).await
                });
            }
        });
        Link::to(address).await
    }

    async fn echoed(stream: &mut TcpStream) -> io::Result<u8> {
        stream.write_all(b"a").await?;
        let answer = tokio::time::timeout(Duration::from_millis(200), stream.read_u8()).await;
        answer.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    #[tokio::test]
    async fn a_blackhole_keeps_what_it_swallows_until_it_clears() {
        let link = link().await;
        let mut old = TcpStream::connect(link.address()).await.expect("a connection");
        assert_eq!(echoed(&mut old).await.expect("an echo"), b'a');
        link.becomes(Weather::Blackhole);
        let mut new = TcpStream::connect(link.address()).await.expect("it seems to connect");
        for stream in [&mut old, &mut new] {
            let error = echoed(stream).await.expect_err("nothing passes");
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        }
        link.becomes(Weather::Clear);
        for stream in [&mut old, &mut new] {
            assert_eq!(stream.read_u8().await.expect("the late echo"), b'a');
        }
    }

    #[tokio::test]
    async fn a_reset_ends_old_and_new_connections() {
        let link = link().await;
        let mut old = TcpStream::connect(link.address()).await.expect("a connection");
        echoed(&mut old).await.expect("an echo");
        link.becomes(Weather::Reset);
        let error = old.read_u8().await.expect_err("it is cut");
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        if let Ok(mut new) = TcpStream::connect(link.address()).await {
            echoed(&mut new).await.expect_err("it is cut too");
        }
        link.becomes(Weather::Clear);
        let mut new = TcpStream::connect(link.address()).await.expect("a connection");
        assert_eq!(echoed(&mut new).await.expect("an echo"), b'a');
    }
}
