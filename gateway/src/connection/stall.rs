//! Sockets that notice a reader who takes nothing.
//!
//! The HTTP dispatcher stops asking for more of an answer while its write buffer is full, so only the
//! socket can tell that a client stalls. When a write has made no progress for the limit, it fails;
//! the dispatcher then drops connection and answer, and that cancels the request.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};

/// A connection whose writes fail when they stand still for too long.
#[derive(Debug)]
pub(crate) struct Stalling<T> {
    io: T,
    limit: Duration,
    /// Runs while a write waits.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<T> Stalling<T> {
    pub(crate) fn new(io: T, limit: Duration) -> Self {
        Self { io, limit, stalled: None }
    }

    fn on_write<R>(
        &mut self,
        context: &mut Context<'_>,
        outcome: Poll<io::Result<R>>,
    ) -> Poll<io::Result<R>> {
        if outcome.is_ready() {
            self.stalled = None;
            return outcome;
        }
        let limit = self.limit;
        let timer = self.stalled.get_or_insert_with(|| Box::pin(sleep(limit)));
        ready!(timer.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client stopped reading")))
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Stalling<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(context, buffer)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Stalling<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.io).poll_write(context, bytes);
        self.on_write(context, outcome)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.io).poll_flush(context);
        self.on_write(context, outcome)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    const LIMIT: Duration = Duration::from_millis(20);

    #[tokio::test]
    async fn a_reader_that_takes_nothing_fails_the_write() {
        let (near, _far) = duplex(4);
        let error = Stalling::new(near, LIMIT).write_all(b"12345").await.expect_err("a stall");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn a_slow_reader_gets_everything() {
        let (near, mut far) = duplex(1);
        let writer =
            tokio::spawn(async move { Stalling::new(near, LIMIT).write_all(b"12345").await });
        let mut taken = Vec::new();
        while taken.len() < 5 {
            // Together the pauses are longer than the limit, each by itself is shorter.
            tokio::time::sleep(LIMIT / 3).await;
            taken.push(far.read_u8().await.expect("a byte"));
        }
        assert_eq!(taken, b"12345");
        writer.await.expect("no panic").expect("all was written");
    }
}
