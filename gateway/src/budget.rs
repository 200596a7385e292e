//! The bytes that all request bodies together may hold.
//!
//! A share grows as its body arrives: what is only announced costs nobody anything, and what was said
//! and never sent cannot lock others out. Once the body has been understood it shrinks to what is kept.

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
    /// Makes it hold `bytes` in all, if there are so many. It does not shrink.
    #[must_use = "nothing was taken if this is false"]
    pub(crate) fn grow_to(&mut self, bytes: usize) -> bool {
        let more = bytes.saturating_sub(self.bytes);
        if more == 0 {
            return true;
        }
        let budget = &self.budget;
        let take = |held: usize| held.checked_add(more).filter(|held| *held <= budget.bytes);
        if budget.held.fetch_update(Relaxed, Relaxed, take).is_err() {
            return false;
        }
        self.bytes += more;
        metrics::body_bytes_taken(more);
        true
    }

    /// Gives back what it holds beyond `bytes`.
    pub(crate) fn shrink_to(&mut self, bytes: usize) {
        let less = self.bytes.saturating_sub(bytes);
        if less > 0 {
            self.bytes -= less;
            self.budget.held.fetch_sub(less, Relaxed);
            metrics::body_bytes_given_back(less);
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::tests::{Shown, metrics_of};

    #[test]
    fn shares_are_bounded_in_sum_and_come_back() {
        let budget = Budget::new(10);
        let (mut a, mut b) = (budget.share(), budget.share());
        assert!(a.grow_to(6) && b.grow_to(4));
        assert!(!b.grow_to(5) && b.grow_to(3), "what it has it keeps");
        drop(a);
        assert!(b.grow_to(10) && !b.grow_to(11));
    }

    #[test]
    fn a_share_shrinks_and_others_get_what_it_gives_back() {
        let budget = Budget::new(10);
        let (mut a, mut b) = (budget.share(), budget.share());
        assert!(a.grow_to(10));
        a.shrink_to(12);
        assert!(!b.grow_to(1));
        a.shrink_to(3);
        assert!(b.grow_to(7) && !b.grow_to(8));
        drop(a);
        assert!(b.grow_to(10));
    }

    /// Threads change the gauge in another order than what it shows: only changes add up.
    #[test]
    fn the_gauge_is_changed_and_not_set() {
        let shown = Shown::default();
        metrics_of(&shown, || {
            let (one, other) = (Budget::new(10), Budget::new(10));
            let (mut a, mut b) = (one.share(), other.share());
            assert!(a.grow_to(6) && b.grow_to(4));
            b.shrink_to(1);
            assert_eq!(shown.value(), 7);
        });
        assert_eq!(shown.value(), 0);
    }
}
