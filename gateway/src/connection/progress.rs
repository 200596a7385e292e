//! How far a connection is with its requests.
//!
//! The parser sees bytes and no clock, the handlers see requests and no bytes. This is what both tell
//! the socket between them, so that the socket can bound what a client may send, and for how long it
//! may take its time:
//!
//! head -> body -> answer -> idle -> head ..., or -> last, after which nothing is read as a request.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    task::Waker,
    time::Duration,
};

use tokio::time::Instant;

/// A client may send so many bytes beyond the request that is being answered. More cannot be read
/// without being kept, and a client that goes away behind unread bytes goes unnoticed.
const AHEAD_BYTES_MAX: usize = 64 << 10;

/// What a client may cost before it has sent a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeadLimits {
    /// A head that is not complete after so many bytes is refused.
    pub(crate) bytes: usize,
    /// From its first byte to its last; on a new connection, from the start.
    pub(crate) time: Duration,
    /// How long a connection is kept between two requests.
    pub(crate) idle: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Nothing of a next request is there.
    Idle,
    /// So much of a head is there.
    Head { bytes: usize },
    /// The head was read; a body may follow.
    Body,
    /// The request is all there; its client has sent so much beyond it.
    Answer { ahead: usize },
    /// The last answer is on its way.
    Last,
}

/// What the socket has to do before it reads on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    /// Nothing.
    Free,
    /// The head is as long as it may be: let the parser see whether it is complete.
    Look,
    /// The client sends and sends.
    Flood,
}

/// What has taken too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Late {
    /// A request is not coming.
    Idle,
    /// A head has begun and does not end.
    Head,
}

/// See the module. Clones share the connection.
#[derive(Clone, Debug)]
pub(crate) struct Progress(Rc<Inner>);

#[derive(Debug)]
struct Inner {
    stage: Cell<Stage>,
    since: Cell<Instant>,
    /// How many answers have ended.
    answers: Cell<u64>,
    /// Whoever waits for bytes: after an answer there is a time limit again.
    reader: RefCell<Option<Waker>>,
}

impl Progress {
    /// A new connection.
    pub(crate) fn start() -> Self {
        Self(Rc::new(Inner {
            stage: Cell::new(Stage::Head { bytes: 0 }),
            since: Cell::new(Instant::now()),
            answers: Cell::new(0),
            reader: RefCell::default(),
        }))
    }

    /// The parser has a request.
    pub(crate) fn head_done(&self, has_body: bool) {
        self.enter(if has_body { Stage::Body } else { Stage::Answer { ahead: 0 } });
    }

    /// The body was read to its end.
    pub(crate) fn body_done(&self) {
        self.enter(Stage::Answer { ahead: 0 });
    }

    /// The answer has gone out, or will not; whether it is the `last` of this connection.
    pub(crate) fn answered(&self, last: bool) {
        self.enter(match self.0.stage.get() {
            Stage::Answer { ahead } if ahead > 0 && !last => Stage::Head { bytes: ahead },
            Stage::Idle | Stage::Head { .. } | Stage::Body | Stage::Answer { .. } if !last => {
                Stage::Idle
            }
            Stage::Idle | Stage::Head { .. } | Stage::Body | Stage::Answer { .. } | Stage::Last => {
                Stage::Last
            }
        });
        self.0.answers.set(self.0.answers.get() + 1);
        if let Some(reader) = self.0.reader.take() {
            reader.wake();
        }
    }

    fn enter(&self, stage: Stage) {
        self.0.stage.set(stage);
        self.0.since.set(Instant::now());
    }

    /// How many answers have ended.
    pub(super) fn answers(&self) -> u64 {
        self.0.answers.get()
    }

    /// Wakes the reader after the next answer.
    pub(super) fn wake_when_answered(&self, reader: &Waker) {
        self.0.reader.replace(Some(reader.clone()));
    }

    /// Bytes have come in.
    pub(super) fn received(&self, more: usize) {
        match self.0.stage.get() {
            Stage::Idle => {
                self.0.since.set(Instant::now());
                self.0.stage.set(Stage::Head { bytes: more });
            }
            Stage::Head { bytes } => self.0.stage.set(Stage::Head { bytes: bytes + more }),
            Stage::Answer { ahead } => self.0.stage.set(Stage::Answer { ahead: ahead + more }),
            Stage::Body | Stage::Last => {}
        }
    }

    pub(super) fn bound(&self, limits: &HeadLimits) -> Bound {
        match self.0.stage.get() {
            Stage::Head { bytes } if bytes >= limits.bytes => Bound::Look,
            Stage::Answer { ahead } if ahead >= AHEAD_BYTES_MAX => Bound::Flood,
            Stage::Idle | Stage::Head { .. } | Stage::Body | Stage::Answer { .. } | Stage::Last => {
                Bound::Free
            }
        }
    }

    /// When it is too late, and for what. The time of a body is the business of who reads it.
    pub(super) fn deadline(&self, limits: &HeadLimits) -> Option<(Instant, Late)> {
        let since = self.0.since.get();
        match self.0.stage.get() {
            Stage::Idle => Some((since + limits.idle, Late::Idle)),
            Stage::Head { bytes: 0 } => Some((since + limits.time, Late::Idle)),
            Stage::Head { .. } => Some((since + limits.time, Late::Head)),
            Stage::Body | Stage::Answer { .. } | Stage::Last => None,
        }
    }

    /// Whether the last answer is on its way.
    pub(super) fn is_last(&self) -> bool {
        self.0.stage.get() == Stage::Last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: HeadLimits =
        HeadLimits { bytes: 100, time: Duration::from_secs(5), idle: Duration::from_secs(75) };

    fn late(progress: &Progress) -> Option<Late> {
        progress.deadline(&LIMITS).map(|(_, late)| late)
    }

    #[test]
    fn only_a_head_that_has_begun_is_late() {
        let progress = Progress::start();
        assert_eq!(late(&progress), Some(Late::Idle));
        progress.received(1);
        assert_eq!(late(&progress), Some(Late::Head));
        progress.head_done(true);
        assert_eq!(late(&progress), None);
        progress.answered(false);
        assert_eq!(late(&progress), Some(Late::Idle));
    }

    #[test]
    fn heads_are_bounded_and_bodies_are_not() {
        let progress = Progress::start();
        progress.received(99);
        assert_eq!(progress.bound(&LIMITS), Bound::Free);
        progress.received(1);
        assert_eq!(progress.bound(&LIMITS), Bound::Look);
        progress.head_done(true);
        progress.received(1 << 30);
        assert_eq!(progress.bound(&LIMITS), Bound::Free);
    }

    #[test]
    fn who_sends_ahead_without_end_is_noticed() {
        let progress = Progress::start();
        progress.head_done(true);
        progress.body_done();
        progress.received(AHEAD_BYTES_MAX - 1);
        assert_eq!(progress.bound(&LIMITS), Bound::Free);
        progress.received(1);
        assert_eq!(progress.bound(&LIMITS), Bound::Flood);
    }

    #[test]
    fn what_was_sent_ahead_is_the_next_head() {
        let progress = Progress::start();
        progress.head_done(false);
        progress.received(7);
        progress.answered(false);
        assert_eq!(late(&progress), Some(Late::Head));
    }

    #[test]
    fn nothing_comes_after_the_last_answer() {
        let progress = Progress::start();
        progress.head_done(true);
        progress.answered(true);
        progress.received(1 << 30);
        assert_eq!((progress.bound(&LIMITS), late(&progress)), (Bound::Free, None));
        assert!(progress.is_last());
    }
}
