//! The last words on a connection.
//!
//! Closing a socket while the other side still sends makes its kernel throw away what it has received,
//! our answer too. So: say it, shut our side down, take what still comes for a moment, let go.

use std::{
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};

/// All of it takes no longer.
const PATIENCE: Duration = Duration::from_secs(1);

/// Last words on their way.
#[derive(Debug)]
pub(super) struct Farewell {
    words: Vec<u8>,
    said: usize,
    shut: bool,
    timer: Pin<Box<Sleep>>,
}

impl Farewell {
    pub(super) fn new(words: Vec<u8>) -> Self {
        Self { words, said: 0, shut: false, timer: Box::pin(sleep(PATIENCE)) }
    }

    /// Says them on `io`, which may be dropped afterwards.
    pub(super) async fn say<T: AsyncRead + AsyncWrite + Unpin>(mut self, mut io: T) {
        poll_fn(|context| self.poll(&mut io, context)).await;
    }

    /// Ready when the connection may be dropped.
    pub(super) fn poll<T: AsyncRead + AsyncWrite + Unpin>(
        &mut self,
        io: &mut T,
        context: &mut Context<'_>,
    ) -> Poll<()> {
        if self.timer.as_mut().poll(context).is_ready() {
            return Poll::Ready(());
        }
        while self.said < self.words.len() {
            match ready!(Pin::new(&mut *io).poll_write(context, &self.words[self.said..])) {
                Ok(written) if written > 0 => self.said += written,
                Ok(_) | Err(_) => return Poll::Ready(()),
            }
        }
        if !self.shut {
            // Whoever cannot be told any more is gone.
            let _ = ready!(Pin::new(&mut *io).poll_shutdown(context));
            self.shut = true;
        }
        let mut scrap = [0; 4 << 10];
        loop {
            let mut scrap = ReadBuf::new(&mut scrap);
            match ready!(Pin::new(&mut *io).poll_read(context, &mut scrap)) {
                Ok(()) if !scrap.filled().is_empty() => {}
                Ok(()) | Err(_) => return Poll::Ready(()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    #[tokio::test]
    async fn words_reach_a_client_that_is_still_sending() {
        let (near, mut far) = duplex(8);
        let saying = tokio::spawn(Farewell::new(b"good-bye".to_vec()).say(near));
        far.write_all(&[0; 1 << 10]).await.expect("somebody takes it");
        let mut heard = String::new();
        far.read_to_string(&mut heard).await.expect("text");
        assert_eq!(heard, "good-bye");
        drop(far);
        saying.await.expect("no panic");
    }

    #[tokio::test]
    async fn nobody_listening_is_not_waited_for() {
        let (near, _far) = duplex(1);
        Farewell::new(b"good-bye".to_vec()).say(near).await;
    }
}
