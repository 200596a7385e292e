//! How late the receiving threads are: a timestamp is worth no more than the thread that takes it.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use tokio::time::{Instant, MissedTickBehavior};

const EVERY: Duration = Duration::from_millis(10);

/// Keeps the worst lateness of a timer in `worst_us`, for as long as it is polled.
pub(super) async fn watch(worst_us: &AtomicU64) {
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let due = ticks.tick().await;
        let late = Instant::now().saturating_duration_since(due);
        worst_us.fetch_max(u64::try_from(late.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}
