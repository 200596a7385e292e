//! What is being done, for people, on standard error.

use std::{
    io::{self, Write as _},
    time::{Duration, Instant},
};

/// How often one stage is told of.
const REPEAT: Duration = Duration::from_secs(5);

/// Tells of the stages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress;

/// Tells of the steps of one stage, now and then.
#[derive(Debug)]
pub(crate) struct Stage {
    what: &'static str,
    steps: usize,
    began: Instant,
    told: Instant,
}

impl Progress {
    /// Writes a line. A reader that went away is ignored.
    pub(crate) fn say(self, line: &str) {
        let _ = writeln!(io::stderr(), "{line}");
    }

    /// Begins a stage of so many steps.
    pub(crate) fn stage(self, what: &'static str, steps: usize) -> Stage {
        self.say(what);
        let now = Instant::now();
        Stage { what, steps, began: now, told: now }
    }
}

impl Stage {
    /// So many steps are done.
    pub(crate) fn done(&mut self, steps: usize) {
        if self.told.elapsed() < REPEAT || steps == 0 || steps >= self.steps {
            return;
        }
        self.told = Instant::now();
        let (what, all) = (self.what, self.steps);
        let left = self.began.elapsed().mul_f64((all - steps) as f64 / steps as f64);
        Progress.say(&format!("{what}: {steps} of {all}, about {} s more", left.as_secs() + 1));
    }
}
