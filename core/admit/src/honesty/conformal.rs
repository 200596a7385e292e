//! What predictions have to be widened by, learnt from how promises turned out.
//!
//! A promise remembers what was foreseen when it was made. When a later request is let in, the delay that
//! this was foreseen to cause is added (impact adjustment): else the margin would measure the slack that
//! admission itself has sold. There is no finite-sample theorem for this closed loop: what is admitted
//! depends on the margin. What keeps promises is their protection; the margin only corrects it.

use std::collections::VecDeque;

use units::Micros;

/// Scores that are kept.
const KEPT: usize = 400;
/// A score counts relative to the time that was foreseen and this.
const ROOT_S: f64 = 0.1;
/// Bounds of the margin on caps.
const MARGIN: (f64, f64) = (0.04, 0.7);
/// How far one promise that is broken moves the margin over scenarios, and how far it may go.
const STEP: f64 = 0.05;
const SHIFT_MAX: f64 = 0.4;

/// The margins of one engine.
#[derive(Clone, Debug, Default)]
pub(crate) struct Conformal {
    scores: VecDeque<f64>,
    quantile: Option<f64>,
    shift: f64,
}

impl Conformal {
    /// A promise ended. `foreseen` is when it was foreseen to, with the delays of later admissions.
    pub(crate) fn ended(
        &mut self,
        made_at: Micros,
        foreseen: Micros,
        ended_at: Micros,
        alpha: f64,
    ) {
        let signed = ended_at.0 as f64 - foreseen.0 as f64;
        let score = signed / 1e6 / (ROOT_S + foreseen.since(made_at).as_secs_f64());
        if !score.is_finite() {
            return;
        }
        if self.scores.len() >= KEPT {
            self.scores.pop_front();
        }
        self.scores.push_back(score);
        self.quantile = self.upper(alpha);
    }

    /// A promise was kept or not: the margin over scenarios follows how often they are.
    pub(crate) fn kept(&mut self, kept: bool, alpha: f64) {
        let missed = f64::from(u8::from(!kept));
        self.shift = (self.shift + STEP * (missed - alpha)).clamp(0.0, SHIFT_MAX);
    }

    /// The finite-sample quantile: rank `ceil((n + 1)(1 - alpha))`, if there are so many.
    fn upper(&self, alpha: f64) -> Option<f64> {
        let count = self.scores.len();
        #[expect(clippy::cast_possible_truncation, reason = "a rank")]
        #[expect(clippy::cast_sign_loss, reason = "it is not negative")]
        let rank = ((count + 1) as f64 * (1.0 - alpha)).ceil() as usize;
        if rank > count || rank == 0 {
            return None;
        }
        let mut sorted: Vec<f64> = self.scores.iter().copied().collect();
        sorted.sort_unstable_by(f64::total_cmp);
        Some(sorted[rank - 1])
    }

    /// The margin on caps, a logarithm; `first` until enough was seen.
    pub(crate) fn margin(&self, first: f64) -> f64 {
        let Some(score) = self.quantile else { return first };
        // Widening by a factor f moves the bound by (f - 1) of the same base that scores are relative to.
        (1.0 + score).max(f64::MIN_POSITIVE).ln().clamp(MARGIN.0, MARGIN.1)
    }

    /// The margin over scenarios, a logarithm.
    pub(crate) fn shift(&self) -> f64 {
        self.shift
    }
}

#[cfg(test)]
mod tests {
    use units::Span;

    use super::*;

    fn after(secs: f64) -> Micros {
        Micros(0) + Span::from_secs_f64(secs)
    }

    #[test]
    fn the_margin_covers_what_was_seen() {
        let mut conformal = Conformal::default();
        for at in 0..98 {
            conformal.ended(Micros(0), after(1.0), after(1.0 + f64::from(at) / 1_000.0), 0.01);
            assert_eq!(conformal.margin(0.12), 0.12, "too few for one in a hundred");
        }
        for at in 98..300 {
            conformal.ended(
                Micros(0),
                after(1.0),
                after(1.0 + f64::from(at % 100) / 1_000.0),
                0.01,
            );
        }
        let widened = 1.0 + (conformal.margin(0.12).exp() - 1.0) * 1.1;
        assert!((1.097..1.1).contains(&widened), "{widened}");
    }

    #[test]
    fn broken_promises_widen_and_kept_ones_narrow() {
        let mut conformal = Conformal::default();
        (0..10).for_each(|_| conformal.kept(false, 0.02));
        assert_eq!(conformal.shift(), SHIFT_MAX);
        (0..1_000).for_each(|_| conformal.kept(true, 0.02));
        assert_eq!(conformal.shift(), 0.0);
    }

    #[test]
    fn odd_times_do_no_harm() {
        let mut conformal = Conformal::default();
        for ended in [Micros(0), Micros(u64::MAX)] {
            (0..200).for_each(|_| conformal.ended(Micros(5), Micros(u64::MAX), ended, 0.01));
            (0..200).for_each(|_| conformal.ended(Micros(5), Micros(0), ended, 0.01));
        }
        assert!((MARGIN.0..=MARGIN.1).contains(&conformal.margin(0.1)));
    }
}
