//! Where the time of a step goes.

use sched::Spent;
use units::{Micros, Span};

/// A part of a step. Together they are the whole of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Choosing who runs, joins and goes.
    Plan,
    /// Telling watchers and clients what happened, before the step and after it.
    Publish,
    /// Keeping prefixes and beginning sequences.
    Move,
    /// Making the backend's batch, and what else an engine does that is not below.
    Batch,
    /// Inside the backend; of a step that failed, the whole time in the engine.
    Decode,
    /// Logits to tokens.
    Sample,
    /// Tokens to text, and looking for stop sequences in it.
    Detokenise,
    /// Taking the outcome: who goes on, who ends, what is kept.
    Commit,
}

impl Part {
    const ALL: [Self; 8] = [
        Self::Plan,
        Self::Publish,
        Self::Move,
        Self::Batch,
        Self::Decode,
        Self::Sample,
        Self::Detokenise,
        Self::Commit,
    ];

    /// The value of its label.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Publish => "publish",
            Self::Move => "move",
            Self::Batch => "batch",
            Self::Decode => "decode",
            Self::Sample => "sample",
            Self::Detokenise => "detokenise",
            Self::Commit => "commit",
        }
    }
}

/// The laps of one step. Each ends where the next begins, so that nothing is between them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Laps {
    began: Micros,
    last: Micros,
    spent: [Span; Part::ALL.len()],
}

impl Laps {
    pub(crate) fn begin(now: Micros) -> Self {
        Self { began: now, last: now, spent: [Span::ZERO; Part::ALL.len()] }
    }

    /// The time since the last lap was this part's.
    pub(crate) fn lap(&mut self, now: Micros, part: Part) {
        self.add(part, now.since(self.last));
        self.last = now;
    }

    /// The time since the last lap was the engine's, who says what it spent it on; `None` if it failed. Says
    /// how long it was. What the engine does not name goes to the batch; it cannot have spent more than
    /// there was.
    pub(crate) fn engine(&mut self, now: Micros, spent: Option<Spent>) -> Span {
        let took = now.since(self.last);
        let mut left = took;
        let Spent { moving, decoding, sampling } =
            spent.unwrap_or(Spent { decoding: took, ..Spent::default() });
        for (part, said) in
            [(Part::Move, moving), (Part::Decode, decoding), (Part::Sample, sampling)]
        {
            let span = said.min(left);
            left = left.saturating_sub(span);
            self.add(part, span);
        }
        self.add(Part::Batch, left);
        self.last = now;
        took
    }

    fn add(&mut self, part: Part, span: Span) {
        self.spent[part as usize] += span;
    }

    /// Every part, with what was spent on it.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (Part, Span)> {
        Part::ALL.into_iter().zip(self.spent)
    }

    /// From the beginning to the last lap.
    pub(crate) fn whole(&self) -> Span {
        self.last.since(self.began)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spent(laps: &Laps, part: Part) -> u64 {
        laps.parts().find(|(it, _)| *it == part).expect("every part is there").1.0
    }

    fn sum(laps: &Laps) -> Span {
        laps.parts().map(|(_, span)| span).sum()
    }

    /// A step at these times: planned, told, run, read, committed, told.
    fn step(engine: Option<Spent>) -> Laps {
        let mut laps = Laps::begin(Micros(100));
        laps.lap(Micros(130), Part::Plan);
        laps.lap(Micros(137), Part::Publish);
        assert_eq!(laps.engine(Micros(1_137), engine), Span(1_000));
        laps.lap(Micros(1_141), Part::Detokenise);
        laps.lap(Micros(1_146), Part::Commit);
        laps.lap(Micros(1_149), Part::Publish);
        laps
    }

    #[test]
    fn parts_sum_to_the_step() {
        let said = Spent { moving: Span(10), decoding: Span(900), sampling: Span(60) };
        // An engine's own clock may say a little more than ours.
        let boasts = Spent { decoding: Span(995), ..said };
        for engine in [Some(said), Some(boasts), Some(Spent::default()), None] {
            let laps = step(engine);
            assert_eq!((sum(&laps), laps.whole()), (Span(1_049), Span(1_049)), "{engine:?}");
        }
    }

    #[test]
    fn time_goes_to_the_part_that_took_it() {
        let laps = step(Some(Spent { moving: Span(10), decoding: Span(900), sampling: Span(60) }));
        let parts = Part::ALL.map(|part| (part.name(), spent(&laps, part)));
        let expected = [
            ("plan", 30),
            ("publish", 10),
            ("move", 10),
            ("batch", 30),
            ("decode", 900),
            ("sample", 60),
            ("detokenise", 4),
            ("commit", 5),
        ];
        assert_eq!(parts, expected);
        assert_eq!(spent(&step(None), Part::Decode), 1_000, "a failure is the backend's");
    }
}
