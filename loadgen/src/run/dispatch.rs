//! The thread that starts requests: it waits for the clock and for nothing else.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use tokio::runtime::Handle;

use super::{
    plan::Plan,
    request::{self, Prepared, Shared},
};
use crate::{interrupt::Stop, record::Row};

/// How long it sleeps at most before it looks whether the run was stopped.
const NAP: Duration = Duration::from_millis(50);

/// Starts every request at its time and counts it in `started`; returns when the last has been started, or
/// when the run is stopped.
///
/// The next request is prepared before its time, so that making its text delays nobody.
pub(super) fn dispatch(
    plan: &Plan,
    shared: &Arc<Shared>,
    started: &AtomicU64,
    runtime: &Handle,
    rows: &mpsc::Sender<Row>,
) {
    for (index, at) in (0..).zip(&plan.at) {
        let ask = plan.ask(index);
        let prepared = Prepared {
            index,
            intended: *at,
            call: shared.server.call(&ask, shared.ignore_eos),
            budgets: ask.budgets,
            asked_prompt_tokens: ask.prompt.tokens().0,
            asked_shared_tokens: ask.prompt.shared_tokens().0,
        };
        if !sleep_until(shared.clock.instant(*at), &shared.stop) {
            return;
        }
        started.fetch_add(1, Ordering::Relaxed);
        let (shared, rows) = (Arc::clone(shared), rows.clone());
        runtime.spawn(async move {
            // The collector lives as long as anybody can send.
            let _ = rows.send(request::perform(shared, prepared).await);
        });
    }
}

/// Whether the time came before the stop.
fn sleep_until(at: Instant, stop: &Stop) -> bool {
    loop {
        if stop.is_asked() {
            return false;
        }
        let left = at.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        thread::sleep(left.min(NAP));
    }
}
