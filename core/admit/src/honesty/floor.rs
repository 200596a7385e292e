//! What any rule must refuse.
//!
//! Beside the real engine runs the simplest model of one that admits everybody: a queue of machine time,
//! served in order. A request is missed there when the queue and its own time exceed its budget. With `mu`
//! the share missed, nobody who lets at most `alpha` of those admitted be late can refuse less than
//! `(mu - alpha) / (1 - alpha)`.

use units::{Micros, Span};

/// The queue that nobody manages.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Floor {
    busy_until: Micros,
    offered: u64,
    missed: u64,
}

impl Floor {
    /// Somebody asks for `cost` of machine time and takes `alone` in an idle engine.
    pub(crate) fn offered(&mut self, now: Micros, cost: Span, alone: Span, budget: Option<Span>) {
        let wait = self.busy_until.until(now);
        self.busy_until = self.busy_until.max(now) + cost;
        self.offered += 1;
        self.missed += u64::from(budget.is_some_and(|budget| wait + alone > budget));
    }

    /// The share that any rule must refuse.
    pub(crate) fn share(&self, alpha: f64) -> f64 {
        if self.offered == 0 {
            return 0.0;
        }
        let missed = self.missed as f64 / self.offered as f64;
        ((missed - alpha) / (1.0 - alpha)).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_machine_has_no_floor_and_an_overloaded_one_has() {
        let share = |gap: u64| {
            let mut floor = Floor::default();
            let second = Span::from_secs(1);
            for at in 0..1_000 {
                floor.offered(Micros(at * gap), second, second, Some(Span::from_secs(4)));
            }
            floor.share(0.01)
        };
        assert_eq!(share(2_000_000), 0.0);
        assert!(share(500_000) > 0.95, "an unmanaged queue only grows");
    }
}
