//! Which configuration is the best.
//!
//! Configurations are compared by tokens a second of one mix: several requests at once, each with a prompt
//! of [`PROMPT`] tokens that nobody kept and an answer of [`ANSWER`]. How long prompts and answers really
//! are, changes the figures much and the order little: what makes rows cheap makes all of them cheap.

use std::collections::BTreeMap;

use sched::EngineError;
use service::clock::Clock;
use units::{Micros, Span};

use super::{Composition, Course, Measured, Rig};
use crate::settings::LayoutKind;

const PROMPT: u32 = 128;
const ANSWER: u32 = 64;
/// Requests at once.
const WIDTH: u32 = 8;
/// Tokens that each of them holds.
const DEPTH: u32 = 128;
/// What is less than this better is not better: equal steps are further apart.
const TIE: f64 = 0.03;
/// Repetitions of each step.
const ROUNDS: u32 = 6;

/// A configuration that was tried.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// Where sequences live.
    pub layout: LayoutKind,
    /// Threads of llama.cpp.
    pub threads: u32,
    /// A step of one sequence.
    pub one: Span,
    /// A step of `width`.
    pub many: Span,
    /// How many those were.
    pub width: u32,
    /// A prompt token, of many.
    pub token: Span,
}

impl Candidate {
    /// Tries a configuration. `None` if the time was over before every step was run; the first that is tried
    /// has the time for that, however slow it is.
    ///
    /// # Errors
    /// The engine failed.
    pub fn measure(
        rig: &mut Rig<'_>,
        (layout, threads): (LayoutKind, u32),
        clock: &Clock,
        deadline: Micros,
        is_first: bool,
    ) -> Result<Option<Self>, EngineError> {
        let reach = *rig.reach();
        let width = WIDTH.min(reach.slots);
        let depth = DEPTH.min(reach.context_tokens / 2);
        let prefill = PROMPT.min(reach.batch_tokens).min(reach.context_tokens);
        let decodes = |decodes| Composition { depth, decodes, ..Composition::default() };
        let prompt = Composition { prefill, ..Composition::default() };
        let steps = [prompt, decodes(1), decodes(width)];
        let surely = if is_first { Micros(u64::MAX) } else { deadline };
        let mut course = Course::run(rig, &steps, 1, clock, surely)?;
        course.extend(Course::run(rig, &steps, ROUNDS, clock, deadline)?);
        let medians = course.medians();
        let took = steps.map(|step| medians.get(&step).map(|(median, _)| median.took));
        let [Some(prompt), Some(one), Some(many)] = took else { return Ok(None) };
        let token = prompt.mul_f64(1.0 / f64::from(prefill));
        Ok(Some(Self { layout, threads, one, many, width, token }))
    }

    /// Tokens a second of the mix.
    #[must_use]
    pub fn rate(&self) -> f64 {
        let prompt = self.token.as_secs_f64() * f64::from(PROMPT);
        let answer = self.many.as_secs_f64() * f64::from(ANSWER) / f64::from(self.width);
        f64::from(ANSWER) / (prompt + answer).max(1e-9)
    }

    /// The fastest, by index. Among those that are as good as that: the fewest threads, so that others
    /// have the processors; then streams.
    #[must_use]
    pub fn best(tried: &[Self]) -> Option<usize> {
        let fastest = tried.iter().map(Self::rate).fold(0.0, f64::max);
        let ties = (0..tried.len()).filter(|at| tried[*at].rate() >= fastest * (1.0 - TIE));
        ties.min_by_key(|at| (tried[*at].threads, tried[*at].layout != LayoutKind::Streams))
    }
}

/// Prompt tokens of a step: the fewest that cost hardly more each than in the best step, alone and beside
/// running answers. Shorter steps are shorter gaps between everybody's tokens. `None` if nothing was
/// measured that tells.
#[must_use]
pub fn chunk(course: &Course) -> Option<u32> {
    let took = course.medians();
    let alone = took.iter().filter(|(it, _)| it.decodes == 0 && it.computed == 0);
    let costs: Vec<(u32, f64)> = alone
        .filter(|(it, _)| it.prefill >= SHORTEST)
        .map(|(it, (alone, _))| {
            let alone = each(alone.took, it.prefill);
            (it.prefill, alone.max(beside(&took, it.prefill).unwrap_or(alone)))
        })
        .collect();
    let least = costs.iter().map(|(_, cost)| *cost).fold(f64::INFINITY, f64::min);
    costs.iter().filter(|(_, cost)| *cost <= least * (1.0 + CHUNK_LOSS)).map(|it| it.0).min()
}

/// No chunk is shorter.
const SHORTEST: u32 = 32;
/// What a shorter chunk may cost more.
const CHUNK_LOSS: f64 = 0.02;

/// What a token of such a prompt adds to a step that decodes, by the widest that was measured with and
/// without.
fn beside(took: &Medians, prefill: u32) -> Option<f64> {
    let with = took.iter().filter(|(it, _)| it.prefill == prefill && it.computed == 0);
    let added = with.filter(|(it, _)| it.decodes > 0).filter_map(|(it, (both, _))| {
        let (without, _) = took.get(&Composition { prefill: 0, ..*it })?;
        Some((it.decodes, each(both.took.saturating_sub(without.took), prefill)))
    });
    added.max_by_key(|(decodes, _)| *decodes).map(|(_, cost)| cost)
}

type Medians = BTreeMap<Composition, (Measured, usize)>;

fn each(took: Span, tokens: u32) -> f64 {
    took.as_secs_f64() / f64::from(tokens)
}

#[cfg(test)]
mod tests {
    use sched::StepShape;

    use super::*;

    fn candidate(layout: LayoutKind, threads: u32, many: u64) -> Candidate {
        let (one, token) = (Span(8_000), Span(2_000));
        Candidate { layout, threads, one, many: Span(many), width: 8, token }
    }

    #[test]
    fn the_fastest_is_best_and_a_tie_leaves_processors_to_others() {
        use LayoutKind::{Streams, Unified};
        assert_eq!(Candidate::best(&[]), None);
        let clear = [candidate(Streams, 1, 60_000), candidate(Streams, 2, 40_000)];
        assert_eq!(Candidate::best(&clear), Some(1));
        let tie = [
            candidate(Unified, 2, 40_000),
            candidate(Streams, 2, 40_500),
            candidate(Streams, 4, 39_900),
        ];
        assert_eq!(Candidate::best(&tie), Some(1));
        let rate = candidate(Streams, 2, 32_000).rate();
        assert!((rate - 64.0 / (0.256 + 0.256)).abs() < 1e-9, "{rate}");
    }

    fn course(steps: &[(u32, u32, u64)]) -> Course {
        let mut course = Course::default();
        for &(decodes, prefill, took) in steps {
            let composition = Composition { decodes, prefill, ..Composition::default() };
            let shape = StepShape { decodes, prefill, ..StepShape::default() };
            course.add(composition, Measured { shape, took: Span(took) });
        }
        course
    }

    #[test]
    fn a_chunk_is_as_short_as_costs_next_to_nothing() {
        let flat = [
            (0, 16, 40_000),
            (0, 32, 78_000),
            (0, 64, 144_000),
            (0, 128, 284_000),
            (0, 256, 564_000),
        ];
        assert_eq!(chunk(&course(&flat)), Some(128));
        // Beside answers a step of 64 rows scans everybody's cells.
        let tiled = [
            (8, 0, 44_000),
            (8, 32, 114_000),
            (8, 64, 382_000),
            (8, 128, 556_000),
            (8, 256, 903_000),
        ];
        let both: Vec<_> = flat.iter().chain(&tiled).copied().collect();
        assert_eq!(chunk(&course(&both)), Some(32));
        assert_eq!(chunk(&course(&[(8, 0, 44_000), (0, 16, 1)])), None);
    }
}
