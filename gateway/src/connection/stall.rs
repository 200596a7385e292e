//! Sockets that notice a reader who takes nothing.
//!
//! The HTTP dispatcher stops asking for more of an answer while its write buffer is full, so only the
//! socket can tell that a client stalls. When a write has made no progress for the limit, it fails;
//! the dispatcher then drops connection and answer, and that cancels the request. A reader that takes a
//! little now and then makes progress, and is given more time, but not for ever.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep, sleep},
};

/// How long a client may keep an answer waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WriteLimits {
    /// Without taking anything.
    pub(crate) stall: Duration,
    /// In sum over a connection.
    pub(crate) total: Duration,
}

/// A connection whose writes fail when they stand still for too long.
#[derive(Debug)]
pub(crate) struct Stalling<T> {
    io: T,
    limits: WriteLimits,
    /// What earlier writes have waited.
    waited: Duration,
    /// Runs while a write waits, since when it is told.
    stalled: Option<(Instant, Pin<Box<Sleep>>)>,
}

impl<T> Stalling<T> {
    pub(crate) fn new(io: T, limits: WriteLimits) -> Self {
        Self { io, limits, waited: Duration::ZERO, stalled: None }
    }

    fn on_write<R>(
        &mut self,
        context: &mut Context<'_>,
        outcome: Poll<io::Result<R>>,
    ) -> Poll<io::Result<R>> {
        if outcome.is_ready() {
            if let Some((since, _)) = self.stalled.take() {
                self.waited += since.elapsed();
            }
            return outcome;
        }
        let limit = self.limits.stall.min(self.limits.total.saturating_sub(self.waited));
        let begin = || (Instant::now(), Box::pin(sleep(limit)));
        let (_, timer) = self.stalled.get_or_insert_with(begin);
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
    const LIMITS: WriteLimits = WriteLimits { stall: LIMIT, total: Duration::from_secs(60) };

    #[tokio::test]
    async fn a_reader_that_takes_nothing_fails_the_write() {
        let (near, _far) = duplex(4);
        let error = Stalling::new(near, LIMITS).write_all(b"12345").await.expect_err("a stall");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn a_slow_reader_gets_everything() {
        let (near, mut far) = duplex(1);
        let writer =
            tokio::spawn(async move { Stalling::new(near, LIMITS).write_all(b"12345").await });
        let mut taken = Vec::new();
        while taken.len() < 5 {
            // Together the pauses are longer than the limit, each by itself is shorter.
            tokio::time::sleep(LIMIT / 3).await;
            taken.push(far.read_u8().await.expect("a byte"));
        }
        assert_eq!(taken, b"12345");
        writer.await.expect("no panic").expect("all was written");
    }

    #[tokio::test]
    async fn a_reader_cannot_be_slow_for_ever() {
        let (near, mut far) = duplex(1);
        let limits = WriteLimits { stall: LIMIT, total: LIMIT * 3 };
        let writer =
            tokio::spawn(async move { Stalling::new(near, limits).write_all(&[0; 100]).await });
        while !writer.is_finished() {
            tokio::time::sleep(LIMIT / 2).await;
            let _ = far.read_u8().await;
        }
        let error = writer.await.expect("no panic").expect_err("a stall");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
