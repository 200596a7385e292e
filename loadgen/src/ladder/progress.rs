//! How far a ladder is, and how long it will still take.

use std::time::{Duration, Instant};

use super::plan::Plan;

/// What a cell takes besides its arrivals until one is known: starting, the probe, the last answers.
const OVERHEAD_GUESS: Duration = Duration::from_secs(20);

/// Cells of a pass, and what cells took until now.
pub(super) struct Progress {
    guess: Duration,
    measured: u32,
    took: Duration,
    since: Instant,
    /// Of this pass.
    all: usize,
    begun: usize,
}

impl Progress {
    pub(super) fn new(plan: &Plan) -> Self {
        Self {
            guess: Duration::from_secs_f64(plan.duration_s) + OVERHEAD_GUESS,
            measured: 0,
            took: Duration::ZERO,
            since: Instant::now(),
            all: 0,
            begun: 0,
        }
    }

    /// Begins a pass over so many cells; how long it may take.
    pub(super) fn pass(&mut self, cells: usize) -> String {
        (self.all, self.begun) = (cells, 0);
        self.left()
    }

    /// Begins a cell; what lines about it begin with.
    pub(super) fn begin(&mut self, name: &str) -> String {
        self.since = Instant::now();
        let left = self.left();
        self.begun += 1;
        format!("[{}/{}, {left} left] {name}  ", self.begun, self.all)
    }

    /// Ends it.
    pub(super) fn end(&mut self) {
        self.measured += 1;
        self.took += self.since.elapsed();
    }

    fn left(&self) -> String {
        let one = self.took.checked_div(self.measured).unwrap_or(self.guess);
        let cells = u32::try_from(self.all - self.begun).unwrap_or(u32::MAX);
        clock(one.saturating_mul(cells))
    }
}

/// Minutes, or hours and minutes.
fn clock(time: Duration) -> String {
    let minutes = time.as_secs().div_ceil(60);
    if minutes < 60 {
        format!("{minutes} min")
    } else {
        format!("{} h {:02} min", minutes / 60, minutes % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ladder::examples::PLAN;

    #[test]
    fn time_left_is_what_cells_took() {
        let plan = Plan::parse(PLAN).expect("a plan");
        let mut progress = Progress::new(&plan);
        assert_eq!(progress.pass(12), "5 min", "12 times 25 s");
        assert_eq!(progress.begin("a"), "[1/12, 5 min left] a  ");
        progress.end();
        assert!(progress.begin("b").starts_with("[2/12, 0 min left] b"));
        assert_eq!(clock(Duration::from_secs(3_601)), "1 h 01 min");
    }
}
