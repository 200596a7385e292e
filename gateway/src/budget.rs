//! The bytes that all request bodies together may hold.
//!
//! A share grows as its body arrives: what is only announced costs nobody anything, and what was said
//! and never sent cannot lock others out.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use crate::metrics;

/// What there is to share. Seen from every thread.
#[derive(Debug)]
pub(crate) struct Budget {
    bytes: usize,
    held: AtomicUsize,
}

/// What one body holds; dropping it gives it back.
#[derive(Debug)]
pub(crate) struct Share {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Budget {
    pub(crate) fn new(bytes: usize) -> Arc<Self> {
        Arc::new(Self { bytes, held: AtomicUsize::new(0) })
    }

    /// An empty share.
    pub(crate) fn share(self: &Arc<Self>) -> Share {
        Share { budget: Arc::clone(self), bytes: 0 }
    }
}

impl Share {
    /// Makes it hold `bytes` in all, if there are so many. It never shrinks.
    #[must_use = "nothing was taken if this is false"]
    pub(crate) fn grow_to(&mut self, bytes: usize) -> bool {
        let more = bytes.saturating_sub(self.bytes);
        if more == 0 {
            return true;
        }
        let budget = &self.budget;
        let take = |held: usize| held.checked_add(more).filter(|held| *held <= budget.bytes);
        let Ok(before) = budget.held.fetch_update(Relaxed, Relaxed, take) else { return false };
        self.bytes += more;
        metrics::body_bytes(before + more);
        true
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        if self.bytes > 0 {
            let before = self.budget.held.fetch_sub(self.bytes, Relaxed);
            metrics::body_bytes(before - self.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_bounded_in_sum_and_come_back() {
        let budget = Budget::new(10);
        let (mut a, mut b) = (budget.share(), budget.share());
        assert!(a.grow_to(6) && b.grow_to(4));
        assert!(!b.grow_to(5) && b.grow_to(3), "what it has it keeps");
        drop(a);
        assert!(b.grow_to(10) && !b.grow_to(11));
    }
}
