//! What sequences reached.

use std::collections::{BTreeMap, BTreeSet};

/// Shares below this say that the sequences do not try enough.
const LEAST: f64 = 0.05;

/// How many sequences reached what.
pub(crate) struct Coverage {
    layout: &'static str,
    sequences: u32,
    reached: BTreeMap<&'static str, u32>,
}

impl Coverage {
    pub(crate) fn new(layout: &'static str) -> Self {
        Self { layout, sequences: 0, reached: BTreeMap::new() }
    }

    pub(crate) fn add(&mut self, reached: BTreeSet<&'static str>) {
        self.sequences += 1;
        for what in reached {
            *self.reached.entry(what).or_default() += 1;
        }
    }

    /// Prints the shares, and fails if one that matters is too small.
    #[expect(clippy::print_stdout, reason = "for whoever runs this by hand")]
    pub(crate) fn report(&self, wanted: &[&'static str]) {
        println!("{}: {} sequences", self.layout, self.sequences);
        let share = |what| {
            let reached = self.reached.get(what).copied().unwrap_or(0);
            f64::from(reached) / f64::from(self.sequences)
        };
        for what in self.reached.keys() {
            println!("  {:>5.1} % reached {what}", share(what) * 100.0);
        }
        for what in wanted {
            assert!(share(what) >= LEAST, "{}: too few reached {what}", self.layout);
        }
    }
}
