//! A client's socket, and what it may do to us.
//!
//! The HTTP dispatcher parses and frames; what it leaves open is closed here, in the bytes that go by:
//! heads that never end, clients that send on and on behind a request, readers that take nothing, and
//! refusals without an envelope. A connection that breaks a rule in its head gets an answer; one that
//! breaks it later is cut, and that cancels its request.

mod farewell;
mod progress;
mod rejection;
mod seats;
mod stall;

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep, sleep_until},
};
use tracing::debug;

use crate::{cors::Cors, error::ApiError, metrics};
use farewell::Farewell;
use progress::{Bound, Late};
use rejection::Meaning;

pub(crate) use progress::{HeadLimits, Progress};
pub(crate) use seats::{Seat, Seats};
pub(crate) use stall::{Stalling, WriteLimits};

/// No HTTP in any place: fed to the parser, so that it refuses in its own order behind the answers that
/// are still going out.
const POISON: u8 = 0;

/// A process that stood still finds its timers due before it hears of the bytes that came meanwhile. So
/// whoever seems late is looked at once more after this.
const SECOND_LOOK: Duration = Duration::from_millis(20);

/// A connection with its limits. See the module.
#[derive(Debug)]
pub(crate) struct Connection<T> {
    io: T,
    progress: Progress,
    limits: HeadLimits,
    cors: Arc<Cors>,
    /// Runs towards the deadline of [`Progress`].
    timer: Option<Pin<Box<Sleep>>>,
    /// It was late, and is looked at once more.
    doubted: bool,
    /// The parser has been given the time to look at a long head.
    looked: bool,
    /// Why the parser was made to refuse.
    cause: Option<Meaning>,
    farewell: Option<Farewell>,
    _seat: Seat,
}

impl<T: AsyncRead + AsyncWrite + Unpin> Connection<T> {
    pub(crate) fn new(
        io: T,
        progress: Progress,
        limits: HeadLimits,
        cors: Arc<Cors>,
        seat: Seat,
    ) -> Self {
        Self {
            io,
            progress,
            limits,
            cors,
            timer: None,
            doubted: false,
            looked: false,
            cause: None,
            farewell: None,
            _seat: seat,
        }
    }

    /// What handlers tell this connection.
    pub(crate) fn progress(&self) -> Progress {
        self.progress.clone()
    }

    /// Makes the parser refuse.
    fn refuse(&mut self, cause: Meaning, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.cause = Some(cause);
        buffer.put_slice(&[POISON]);
        Poll::Ready(Ok(()))
    }

    /// What happens when nothing has come in.
    fn wait(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.progress.wake_when_answered(context.waker());
        let Some((deadline, late)) = self.progress.deadline(&self.limits) else {
            return Poll::Pending;
        };
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if timer.deadline() != deadline {
            timer.as_mut().reset(deadline);
        }
        ready!(timer.as_mut().poll(context));
        if !std::mem::replace(&mut self.doubted, true) {
            timer.as_mut().reset(Instant::now() + SECOND_LOOK);
            ready!(timer.as_mut().poll(context));
        }
        match late {
            // As if the client had closed: nobody waits for an answer.
            Late::Idle => Poll::Ready(Ok(())),
            Late::Head => self.refuse(Meaning::HeadTimeout, buffer),
        }
    }

    /// Sends what stands for the parser's refusal, which is `bytes`.
    fn reject(
        &mut self,
        context: &mut Context<'_>,
        bytes: &[u8],
        meaning: Meaning,
    ) -> Poll<io::Result<usize>> {
        if self.farewell.is_none() {
            let error = self.cause.unwrap_or(meaning).error();
            metrics::rejected(error.code());
            debug!(code = error.code(), "no request came of it");
            let words = rejection::answer(&error, &self.cors);
            self.farewell = Some(Farewell::new(words));
        }
        let farewell = self.farewell.as_mut().expect("set above");
        ready!(farewell.poll(&mut self.io, context));
        Poll::Ready(Ok(bytes.len()))
    }
}

/// Tells a client that there are too many, and closes. Where too many are being told so, it only closes.
pub(crate) async fn turn_away<T: AsyncRead + AsyncWrite + Unpin>(
    io: T,
    cors: &Cors,
    seats: &Seats,
) {
    let error = ApiError::Connections;
    metrics::rejected(error.code());
    if let Some(_permit) = seats.farewell() {
        Farewell::new(rejection::answer(&error, cors)).say(io).await;
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncRead for Connection<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.cause.is_some() {
            return Poll::Ready(Ok(()));
        }
        match self.progress.bound(&self.limits) {
            Bound::Free => self.looked = false,
            Bound::Look if self.looked => return self.refuse(Meaning::HeadTooLarge, buffer),
            Bound::Look => {
                self.looked = true;
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            Bound::Flood => {
                metrics::rejected("flood");
                return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
            }
        }
        let before = buffer.filled().len();
        match Pin::new(&mut self.io).poll_read(context, buffer) {
            Poll::Ready(outcome) => {
                self.doubted = false;
                self.progress.received(buffer.filled().len() - before);
                Poll::Ready(outcome)
            }
            Poll::Pending => self.wait(context, buffer),
        }
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Connection<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match rejection::find(bytes) {
            // The request that the parser refuses has had its answer.
            Some((0, _)) if self.progress.is_last() => Poll::Ready(Ok(bytes.len())),
            Some((0, meaning)) => self.reject(context, bytes, meaning),
            Some((end, _)) => Pin::new(&mut self.io).poll_write(context, &bytes[..end]),
            None => Pin::new(&mut self.io).poll_write(context, bytes),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, duplex};

    #[tokio::test]
    async fn who_comes_while_too_many_are_turned_away_hears_nothing() {
        let (seats, cors) = (Seats::new(1), Cors::any());
        let heard = async || {
            let (near, mut far) = duplex(1 << 10);
            let mut heard = String::new();
            let hear = async { far.read_to_string(&mut heard).await.expect("text") };
            tokio::join!(hear, turn_away(near, &cors, &seats));
            heard
        };
        assert!(heard().await.contains("too_many_connections"));
        let _saying: Vec<_> = std::iter::from_fn(|| seats.farewell()).collect();
        assert_eq!(heard().await, "");
    }
}
