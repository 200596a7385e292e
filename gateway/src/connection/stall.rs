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

use super::Progress;

/// How long a client may keep an answer waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WriteLimits {
    /// Without taking anything.
    pub(crate) stall: Duration,
    /// In sum over an answer.
    pub(crate) total: Duration,
}

/// A connection whose writes fail when they stand still for too long.
#[derive(Debug)]
pub(crate) struct Stalling<T> {
    io: T,
    limits: WriteLimits,
    progress: Progress,
    /// The answer that `waited` is about, by how many came before it.
    answer: u64,
    /// What its earlier writes have waited.
    waited: Duration,
    /// Runs while a write waits, since when it is told.
    stalled: Option<(Instant, Pin<Box<Sleep>>)>,
}

impl<T> Stalling<T> {
    /// `progress` tells when an answer has ended.
    pub(crate) fn new(io: T, limits: WriteLimits, progress: Progress) -> Self {
        Self { io, limits, progress, answer: 0, waited: Duration::ZERO, stalled: None }
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
        // A client that takes a while for each of many answers is not the one that this is about.
        if self.stalled.is_none() && self.answer != self.progress.answers() {
            self.answer = self.progress.answers();
            self.waited = Duration::ZERO;
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
        let mut socket = Stalling::new(near, LIMITS, Progress::start());
        let error = socket.write_all(b"12345").await.expect_err("a stall");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn a_slow_reader_gets_everything() {
        let (near, mut far) = duplex(1);
        let mut socket = Stalling::new(near, LIMITS, Progress::start());
        let read = async {
            let mut taken = Vec::new();
            while taken.len() < 5 {
                // Together the pauses are longer than the limit, each by itself is shorter.
                sleep(LIMIT / 3).await;
                taken.push(far.read_u8().await.expect("a byte"));
            }
            taken
        };
        let (written, taken) = tokio::join!(socket.write_all(b"12345"), read);
        written.expect("all was written");
        assert_eq!(taken, b"12345");
    }

    const PATIENT: WriteLimits =
        WriteLimits { stall: Duration::from_secs(60), total: Duration::from_millis(300) };
    const PAUSE: Duration = Duration::from_millis(60);

    #[tokio::test]
    async fn a_reader_cannot_be_slow_for_ever() {
        let (near, mut far) = duplex(1);
        let mut socket = Stalling::new(near, PATIENT, Progress::start());
        let read = async {
            loop {
                sleep(PAUSE).await;
                let _ = far.read_u8().await;
            }
        };
        let error = tokio::select! {
            written = socket.write_all(&[0; 100]) => written.expect_err("a stall"),
            () = read => unreachable!("it reads for ever"),
        };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn each_answer_may_wait_for_its_reader() {
        let (near, mut far) = duplex(1);
        let progress = Progress::start();
        let mut socket = Stalling::new(near, PATIENT, progress.clone());
        // Together the answers wait for longer than one may.
        for answer in 0..8 {
            let read = async {
                sleep(PAUSE).await;
                far.read_exact(&mut [0; 2]).await
            };
            let outcome = tokio::try_join!(socket.write_all(b"12"), read);
            assert!(outcome.is_ok(), "answer {answer}: {outcome:?}");
            progress.answered(false);
        }
    }
}
