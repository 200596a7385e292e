//! A caller that leaves is an event, sent from exactly one place.

use actix::Addr;
use admit::Attempt;
use tokio::runtime::Handle;

use crate::{actor::Admission, message::Withdraw};

/// Withdraws an attempt when it is dropped, unless its verdict has been used.
pub(crate) struct WithdrawOnDrop {
    armed: Option<(Addr<Admission>, Attempt)>,
    runtime: Handle,
}

impl WithdrawOnDrop {
    pub(crate) fn new(actor: Addr<Admission>, attempt: Attempt, runtime: Handle) -> Self {
        Self { armed: Some((actor, attempt)), runtime }
    }

    /// The verdict is on its way to the caller.
    pub(crate) fn disarm(mut self) {
        self.armed = None;
    }
}

impl Drop for WithdrawOnDrop {
    fn drop(&mut self) {
        let Some((actor, attempt)) = self.armed.take() else { return };
        // Waits for room in the mailbox, which a drop cannot. An actor that has ended holds nothing.
        self.runtime.spawn(async move {
            let _ = actor.send(Withdraw(attempt)).await;
        });
    }
}
