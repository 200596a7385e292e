//! Runs of consecutive blocks.

use units::BlockCount;

/// A run of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) start: u32,
    pub(crate) len: u32,
}

impl Run {
    fn end(self) -> u32 {
        self.start + self.len
    }
}

/// Free runs, each as long as can be, in order. First fit.
#[derive(Debug)]
pub(crate) struct Slab {
    pub(crate) runs: Vec<Run>,
    pub(crate) total: BlockCount,
}

impl Slab {
    pub(crate) fn new(total: BlockCount) -> Self {
        let all = Run { start: 0, len: total.0 };
        Self { runs: if all.len > 0 { vec![all] } else { Vec::new() }, total }
    }

    /// Takes a run from the beginning of the first that is long enough.
    pub(crate) fn take(&mut self, len: BlockCount) -> Option<Run> {
        if len.0 == 0 {
            return Some(Run { start: 0, len: 0 });
        }
        let at = self.runs.iter().position(|run| run.len >= len.0)?;
        let start = self.runs[at].start;
        self.shorten(at, len.0);
        Some(Run { start, len: len.0 })
    }

    /// Takes the blocks from `start` on, if they are all free. Says whether it did.
    pub(crate) fn take_at(&mut self, run: Run) -> bool {
        let found =
            self.runs.iter().position(|free| free.start == run.start && free.len >= run.len);
        if let Some(at) = found {
            self.shorten(at, run.len);
        }
        found.is_some()
    }

    /// Takes a run back.
    pub(crate) fn give_back(&mut self, run: Run) {
        if run.len == 0 {
            return;
        }
        let at = self.runs.partition_point(|free| free.start < run.start);
        self.runs.insert(at, run);
        self.join(at);
        if at > 0 {
            self.join(at - 1);
        }
    }

    pub(crate) fn free(&self) -> BlockCount {
        BlockCount(self.runs.iter().map(|run| run.len).sum())
    }

    pub(crate) fn largest(&self) -> BlockCount {
        BlockCount(self.runs.iter().map(|run| run.len).max().unwrap_or(0))
    }

    fn shorten(&mut self, at: usize, by: u32) {
        let run = &mut self.runs[at];
        *run = Run { start: run.start + by, len: run.len - by };
        if run.len == 0 {
            self.runs.remove(at);
        }
    }

    /// Joins a run with the next, if nothing lies between them.
    fn join(&mut self, at: usize) {
        if self.runs.get(at + 1).is_some_and(|next| self.runs[at].end() == next.start) {
            self.runs[at].len += self.runs.remove(at + 1).len;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_run_that_is_long_enough_is_taken() {
        let mut slab = Slab::new(BlockCount(10));
        let runs = [2, 3, 1, 4].map(|len| slab.take(BlockCount(len)).expect("room"));
        slab.give_back(runs[0]);
        slab.give_back(runs[3]);
        assert_eq!(slab.take(BlockCount(3)), Some(Run { start: 6, len: 3 }));
        assert_eq!((slab.free(), slab.largest()), (BlockCount(3), BlockCount(2)));
    }

    #[test]
    fn runs_given_back_join_their_neighbours() {
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let mut slab = Slab::new(BlockCount(6));
            let runs = [1, 2, 3].map(|len| slab.take(BlockCount(len)).expect("room"));
            order.into_iter().for_each(|at| slab.give_back(runs[at]));
            assert_eq!(slab.runs, [Run { start: 0, len: 6 }], "{order:?}");
        }
    }
}
