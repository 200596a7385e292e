//! What the actor is told and asked.

use std::sync::Arc;

use actix::Message;
use admit::{Attempt, EngineId, Observation, Offer, Record, Snapshot, Verdict, View};
use tokio::sync::oneshot;

use crate::traces::{Reading, StoreError};

/// Somebody wants in. The verdict may take as long as the caller's patience.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Decide {
    pub(crate) offer: Offer,
    pub(crate) answer: oneshot::Sender<Verdict>,
}

/// The caller of this attempt has gone without its verdict.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Withdraw(pub(crate) Attempt);

/// How a request ended that no watched engine served. The answer: whether it was known.
#[derive(Message)]
#[rtype(result = "bool")]
pub(crate) struct Observe(pub(crate) Attempt, pub(crate) Observation);

/// News of one engine.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Tell {
    pub(crate) engine: EngineId,
    pub(crate) news: News,
}

/// What a watcher has to say.
pub(crate) enum News {
    Attached {
        epoch: u64,
        instance: Arc<str>,
        snapshot: Option<Box<Snapshot>>,
    },
    Snapshot(Box<Snapshot>),
    Record(Record),
    /// The connection broke, or could not be made; why.
    Interrupted(String),
    /// Nothing was heard for so long that the engine counts as gone.
    Detached,
}

/// What does the controller see?
#[derive(Message)]
#[rtype(result = "State")]
pub(crate) struct ReadState;

/// The controller, and what is wrong with each engine's connection, in configuration order.
pub(crate) struct State {
    pub(crate) view: View,
    pub(crate) problems: Vec<String>,
}

/// The next rows after this number, with all that was closed before this message.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct ReadTraces {
    pub(crate) after: u64,
    pub(crate) limit: usize,
    /// Dropped when too much is to be written first.
    pub(crate) answer: oneshot::Sender<Result<Reading, StoreError>>,
}

/// Accept nothing more and answer whoever waits.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Drain;

/// Close what is open and end the actor.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Stop;
