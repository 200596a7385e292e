//! What steps really cost, whatever the planner believes.
//!
//! A model, times what a real machine adds: noise from step to step, a drift over a minute, stalls, a
//! dependence on context that the model does not have, and changes of speed.

use sched::{StepCost, StepShape};
use units::{Micros, Span};
use workload::Draws;

/// The time of steps.
#[derive(Clone, Debug, PartialEq)]
pub struct Truth {
    /// The undisturbed time.
    pub cost: StepCost,
    /// Standard deviation of the logarithm from step to step.
    pub noise: f64,
    /// The same of a slow drift.
    pub drift: f64,
    /// After how long a drift is forgotten by 63 %. Above zero where there is a drift.
    pub drift_memory: Span,
    /// Stalls, if there are any.
    pub stalls: Option<Stalls>,
    /// How much a step slows, as a share, when its rows attend to 1,200 cells each instead of 600; and
    /// speeds up towards none. Hidden from the planner.
    pub context: f64,
    /// From when on everything takes how many times as long, in order.
    pub speeds: Vec<(Micros, f64)>,
    /// Between two steps, for everything but the step.
    pub between: Span,
}

/// Times in which nothing happens, as other work takes the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stalls {
    /// Mean time between two of them.
    pub every: Span,
    /// Each takes at least this,
    pub least: Span,
    /// and on average this much more.
    pub more: Span,
}

impl Truth {
    /// Just the model.
    #[must_use]
    pub fn exact(cost: StepCost) -> Self {
        Self {
            cost,
            noise: 0.0,
            drift: 0.0,
            drift_memory: Span::from_secs(60),
            stalls: None,
            context: 0.0,
            speeds: Vec::new(),
            between: Span::ZERO,
        }
    }

    /// The model as a busy machine runs it: 7 % noise, 5 % drift, a stall a minute, 10 % that depends on
    /// context.
    #[must_use]
    pub fn busy(cost: StepCost) -> Self {
        Self {
            noise: 0.07,
            drift: 0.05,
            stalls: Some(Stalls {
                every: Span::from_secs(60),
                least: Span::from_millis(50),
                more: Span::from_millis(150),
            }),
            context: 0.1,
            ..Self::exact(cost)
        }
    }
}

/// Cells that a row attends to where the model is right about it.
const CELLS_USUAL: f64 = 600.0;

/// A machine under way.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    truth: Truth,
    draws: Draws,
    /// The logarithm of the drift, as of then.
    drift: (Micros, f64),
    stall_at: Micros,
}

impl Machine {
    /// The machine of `truth`, whose luck is `draws`.
    pub(crate) fn new(truth: Truth, mut draws: Draws) -> Self {
        let drift = truth.drift * draws.normal();
        let mut machine = Self { truth, draws, drift: (Micros(0), drift), stall_at: Micros(0) };
        machine.stall_at = machine.next_stall(Micros(0));
        machine
    }

    /// How long a step of this shape takes that begins now.
    pub(crate) fn time(&mut self, now: Micros, shape: StepShape) -> Span {
        let plain = self.truth.cost.predict(shape);
        let noise = libm::exp(self.truth.noise * self.draws.normal());
        let factor = noise * libm::exp(self.drift(now)) * self.context(shape) * self.speed(now);
        let took = plain.mul_f64(factor);
        (took + self.stalls(now, took) + self.truth.between).max(Span(1))
    }

    /// An Ornstein-Uhlenbeck process, so that its spread is the same at any time.
    fn drift(&mut self, now: Micros) -> f64 {
        if self.truth.drift == 0.0 {
            return 0.0;
        }
        let (then, before) = self.drift;
        let passed = now.since(then).as_secs_f64() / self.truth.drift_memory.as_secs_f64();
        let kept = libm::exp(-passed);
        let fresh = (1.0 - kept * kept).max(0.0).sqrt() * self.truth.drift;
        let value = before * kept + fresh * self.draws.normal();
        self.drift = (now, value);
        value
    }

    fn context(&self, shape: StepShape) -> f64 {
        let rows = f64::from(shape.decodes + shape.prefill).max(1.0);
        let share = shape.cells as f64 / rows / CELLS_USUAL - 1.0;
        1.0 + self.truth.context * share.clamp(-1.0, 1.0)
    }

    fn speed(&self, now: Micros) -> f64 {
        let last = self.truth.speeds.iter().rev().find(|(from, _)| *from <= now);
        last.map_or(1.0, |(_, factor)| *factor)
    }

    /// The stalls that fall into a step.
    fn stalls(&mut self, now: Micros, took: Span) -> Span {
        let Some(stalls) = self.truth.stalls else { return Span::ZERO };
        let mut lost = Span::ZERO;
        while self.stall_at <= now + took + lost {
            // One that fell into an idle time was not noticed.
            if self.stall_at >= now {
                lost += stalls.least + stalls.more.mul_f64(self.draws.exponential());
            }
            self.stall_at = self.next_stall(self.stall_at);
        }
        lost
    }

    fn next_stall(&mut self, after: Micros) -> Micros {
        let every = self.truth.stalls.map_or(Span::ZERO, |stalls| stalls.every);
        after + every.mul_f64(self.draws.exponential()).max(Span(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: StepShape = StepShape { decodes: 4, prefill: 0, cells: 2_400, prefill_cells: 0 };

    fn times(truth: Truth, count: u64) -> Vec<f64> {
        let mut machine = Machine::new(truth, Draws::new(7, 0));
        let step = |at: u64| machine.time(Micros(at * 100_000), SHAPE).as_secs_f64();
        (0..count).map(step).collect()
    }

    #[test]
    fn an_exact_machine_is_its_model() {
        let expected = StepCost::GUESS.predict(SHAPE).as_secs_f64();
        assert_eq!(times(Truth::exact(StepCost::GUESS), 3), [expected; 3]);
    }

    #[test]
    fn noise_has_its_spread_and_no_bias_to_speak_of() {
        let truth = Truth { noise: 0.07, ..Truth::exact(StepCost::GUESS) };
        let plain = StepCost::GUESS.predict(SHAPE).as_secs_f64();
        let logs: Vec<f64> = times(truth, 4_000).iter().map(|time| (time / plain).ln()).collect();
        let mean = logs.iter().sum::<f64>() / logs.len() as f64;
        let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / logs.len() as f64;
        assert!(mean.abs() < 0.01, "{mean}");
        assert!((variance.sqrt() - 0.07).abs() < 0.005, "{}", variance.sqrt());
    }

    #[test]
    fn stalls_come_as_often_as_is_said() {
        let stalls =
            Stalls { every: Span::from_secs(1), least: Span::from_millis(50), more: Span::ZERO };
        let truth = Truth { stalls: Some(stalls), ..Truth::exact(StepCost::GUESS) };
        let plain = StepCost::GUESS.predict(SHAPE).as_secs_f64();
        let lost: f64 = times(truth, 20_000).iter().map(|time| time - plain).sum();
        // 2,000 s, of which a fifth is spent in steps: about 400 stalls of 50 ms.
        assert!((15.0..30.0).contains(&lost), "{lost}");
    }

    #[test]
    fn a_change_of_speed_holds_from_its_time_on() {
        let speeds = vec![(Micros(100_000), 2.0), (Micros(200_000), 0.5)];
        let truth = Truth { speeds, ..Truth::exact(StepCost::GUESS) };
        let plain = StepCost::GUESS.predict(SHAPE).as_secs_f64();
        assert_eq!(times(truth, 3), [plain, 2.0 * plain, 0.5 * plain]);
    }
}
