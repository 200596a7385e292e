//! Steps that are measured in rounds, until the time is over.

use std::collections::BTreeMap;

use sched::{EngineError, StepCost, StepShape};
use service::clock::Clock;
use units::{Micros, Span};

use super::{Composition, Measured, Rig};

/// Repetitions of a step before the depth of slots changes, where changing it is dear.
const REPEATS: u32 = 4;
/// Steps during which a machine keeps its speed, more or less.
const LEVEL: usize = 16;
/// How often the speed of the machine and the model of it are told apart from each other.
const LEVELLINGS: usize = 2;

/// What was measured, in the order of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Course {
    steps: Vec<(Composition, Measured)>,
}

impl Course {
    /// Runs all compositions again and again, at most `rounds` times and none after `deadline`.
    ///
    /// # Errors
    /// The engine failed.
    pub fn run(
        rig: &mut Rig<'_>,
        compositions: &[Composition],
        rounds: u32,
        clock: &Clock,
        deadline: Micros,
    ) -> Result<Self, EngineError> {
        let mut course = Self::default();
        let repeats = if rig.reach().keeps { 1 } else { REPEATS.min(rounds.max(1)) };
        for _ in 0..rounds.div_ceil(repeats) {
            for depth in compositions.chunk_by(|one, other| one.depth == other.depth) {
                for composition in (0..repeats).flat_map(|_| depth) {
                    if clock.now() >= deadline {
                        return Ok(course);
                    }
                    let measured = rig.run(*composition)?;
                    course.add(*composition, measured);
                }
            }
        }
        Ok(course)
    }

    /// Adds a step.
    pub fn add(&mut self, composition: Composition, measured: Measured) {
        self.steps.push((composition, measured));
    }

    /// Adds steps that were run later.
    pub fn extend(&mut self, later: Self) {
        self.steps.extend(later.steps);
    }

    /// Every step, in the order of time.
    #[must_use]
    pub fn steps(&self) -> &[(Composition, Measured)] {
        &self.steps
    }

    /// The step in the middle of each composition's, by time, and how many those are.
    #[must_use]
    pub fn medians(&self) -> BTreeMap<Composition, (Measured, usize)> {
        let median = |mut steps: Vec<Measured>| {
            steps.sort_by_key(|it| it.took);
            (steps[steps.len() / 2], steps.len())
        };
        self.groups().into_iter().map(|(composition, steps)| (composition, median(steps))).collect()
    }

    /// The fastest step of each composition: of few steps on a busy machine it tells most, for whatever
    /// else the machine does only ever adds.
    #[must_use]
    pub fn fastest(&self) -> Vec<Measured> {
        let groups = self.groups().into_values();
        groups.filter_map(|steps| steps.into_iter().min_by_key(|it| it.took)).collect()
    }

    fn groups(&self) -> BTreeMap<Composition, Vec<Measured>> {
        let mut groups: BTreeMap<Composition, Vec<Measured>> = BTreeMap::new();
        for (composition, measured) in &self.steps {
            groups.entry(*composition).or_default().push(*measured);
        }
        groups
    }

    /// The same steps on a machine of constant speed, and the model that fits them: speed is told from
    /// cost by going through the steps a few at a time. `None` if they determine no model.
    #[must_use]
    pub fn fit(self) -> Option<(Self, StepCost)> {
        let mut cost = fit(&self.typical())?;
        let mut level = self;
        for _ in 0..LEVELLINGS {
            level = level.levelled(&cost);
            cost = fit(&level.typical())?;
        }
        Some((level, cost))
    }

    /// The median step of each composition.
    #[must_use]
    pub fn typical(&self) -> Vec<Measured> {
        self.medians().into_values().map(|(measured, _)| measured).collect()
    }

    fn levelled(mut self, cost: &StepCost) -> Self {
        for block in self.steps.chunks_mut(LEVEL) {
            let expected = |it: &Measured| cost.predict(it.shape).as_secs_f64().max(1e-6);
            let mut ratios: Vec<f64> =
                block.iter().map(|(_, it)| it.took.as_secs_f64() / expected(it)).collect();
            ratios.sort_by(f64::total_cmp);
            let speed = ratios[ratios.len() / 2].max(1e-6);
            for (_, it) in block {
                it.took = it.took.mul_f64(1.0 / speed);
            }
        }
        self
    }
}

/// The model that fits these steps.
#[must_use]
pub(super) fn fit(steps: &[Measured]) -> Option<StepCost> {
    let steps: Vec<(StepShape, Span)> = steps.iter().map(|it| (it.shape, it.took)).collect();
    StepCost::fit(&steps)
}

#[cfg(test)]
mod tests {
    use sched::{Answers, Bend, MockEngine, StepOutcome, StepPlan};
    use units::Token;

    use super::{
        super::{Grid, Reach},
        *,
    };

    const REACH: Reach =
        Reach { slots: 8, context_tokens: 600, batch_tokens: 128, keeps: true, vocabulary: 50 };

    /// A mock that gets slower after a while.
    struct Tiring {
        engine: MockEngine,
        steps: usize,
    }

    impl sched::Engine for Tiring {
        fn execute(&mut self, plan: &StepPlan) -> Result<StepOutcome, EngineError> {
            self.steps += 1;
            let mut outcome = self.engine.execute(plan)?;
            if self.steps > 150 {
                outcome.took = outcome.took.mul_f64(1.3);
            }
            Ok(outcome)
        }
    }

    #[test]
    fn a_machine_that_gets_slower_does_not_bend_the_model() {
        let bend = Bend::new(&[1_000.0, 3_000.0, 4_000.0]);
        let truth = StepCost { per_cell_us: 2.0, prompt_us: 3_000.0, bend, ..StepCost::GUESS };
        let answers = Answers { words: 1..9, end: Token(0), tokens: 0 };
        let engine = MockEngine::new(8, truth, answers);
        let mut engine = Tiring { engine, steps: 0 };
        let mut rig = Rig::new(&mut engine, REACH);
        let grid = Grid::new(&REACH, Span(2_200), Span::from_secs(30)).long(&REACH);
        let clock = Clock::start();
        let course = Course::run(&mut rig, &grid, 3, &clock, Micros(u64::MAX)).expect("fit");
        let (level, cost) = course.fit().expect("determined");
        let ratios: Vec<f64> = level
            .typical()
            .iter()
            .map(|it| cost.predict(it.shape).as_secs_f64() / truth.predict(it.shape).as_secs_f64())
            .collect();
        let (least, most) =
            ratios.iter().fold((f64::MAX, 0.0_f64), |(a, b), it| (a.min(*it), b.max(*it)));
        assert!(most / least < 1.06, "{least} to {most}");
    }

    #[test]
    fn nothing_is_run_after_the_deadline() {
        let answers = Answers { words: 1..9, end: Token(0), tokens: 0 };
        let mut engine = MockEngine::new(8, StepCost::GUESS, answers);
        let mut rig = Rig::new(&mut engine, REACH);
        let grid = Grid::new(&REACH, Span(2_200), Span::from_secs(30)).short(&REACH);
        let course = Course::run(&mut rig, &grid, 3, &Clock::start(), Micros(0)).expect("fit");
        assert_eq!((course.steps().len(), course.fit()), (0, None));
    }
}
