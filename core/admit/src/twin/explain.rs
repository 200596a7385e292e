//! Why no promise can be made, and what would help.

use units::{Micros, Span, TokenCount};

use super::{
    Foresight, Twin,
    case::Case,
    decide::{blind, case, own_cost_us},
    doubt::Doubt,
};
use crate::{
    Cause, Choice, Dominant, Problem, Tier,
    forecast::{Fate, Run, State},
    sight::Sight,
};

/// Delays that are tried, in seconds.
const DELAYS_S: [u64; 7] = [1, 2, 4, 8, 16, 32, 59];

/// Why a request is refused at one engine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Explanation {
    pub(crate) cause: Cause,
    /// By when it would be done, or the end of time.
    pub(crate) bound: Micros,
    pub(crate) max_tokens_that_fit: Option<u32>,
    /// Until it would be let in; absent where that is not foreseen.
    pub(crate) wait: Option<Span>,
}

/// Explains. Predictions are those on caps, whatever the policy foresees: they say what is sure.
pub(crate) fn explain(
    twin: &Twin,
    problem: &Problem<'_>,
    choice: &Choice<'_>,
    run: &mut Run,
) -> Explanation {
    let seen = choice.engine.sight.as_ref().filter(|sight| choice.engine.fresh && !sight.alarm);
    let Some(sight) = seen else {
        return Explanation {
            cause: blind(choice),
            bound: Micros(u64::MAX),
            max_tokens_that_fit: None,
            wait: None,
        };
    };
    let case = case(twin, problem, choice, sight, Tier::Promised);
    Why { twin, problem, choice, sight, case }.explain(run)
}

struct Why<'a> {
    twin: &'a Twin,
    problem: &'a Problem<'a>,
    choice: &'a Choice<'a>,
    sight: &'a Sight,
    case: Case<'a>,
}

impl Why<'_> {
    fn explain(&self, run: &mut Run) -> Explanation {
        let budget = self.problem.context.budget;
        let left = budget.e2e.unwrap_or(Span(u64::MAX));
        let (own, alone) = (self.fate(run), self.alone(self.case.candidate.left, run));
        let after = |at: Micros| self.doubt().apply(self.problem.now, at).since(self.problem.now);
        let bound = after(own.end);
        let idle = self.is_in_time(alone);
        // Answers that are likely to end before their cap may fit although the cap does not.
        let hopeless = !idle && self.is_deterministic();
        let cause = if hopeless {
            Cause::Hopeless { bound: after(alone.end), budget: left }
        } else {
            Cause::Late { bound, budget: left, dominant: self.dominant(own, alone) }
        };
        Explanation {
            cause,
            bound: own.end,
            max_tokens_that_fit: self.largest_cap(hopeless, run),
            wait: if hopeless { None } else { self.wait(run) },
        }
    }

    fn is_deterministic(&self) -> bool {
        matches!(self.twin.foresight, Foresight::Caps { .. }) || self.sight.scenarios.is_none()
    }

    fn doubt(&self) -> Doubt {
        Doubt::of(self.sight.margin)
    }

    fn fate(&self, run: &mut Run) -> Fate {
        let outlook = self.case.outlook;
        run.start(&outlook.state, outlook.who.len() + 1);
        run.state.everybody_mut().for_each(|it| it.watched = false);
        run.state.enqueue(self.case.candidate);
        run.finish(outlook.fixed(), outlook.busy_until, Micros(u64::MAX));
        run.fates[self.case.candidate.who as usize]
    }

    /// What happens to it with so many tokens in an engine of its own.
    fn alone(&self, tokens: u32, run: &mut Run) -> Fate {
        let outlook = self.case.outlook;
        let state = State {
            now: self.problem.now,
            step: outlook.state.step,
            free_slots: outlook.limits.slots,
            free_blocks: outlook.limits.kv_blocks.0,
            ..State::default()
        };
        run.start(&state, outlook.who.len() + 1);
        run.state.enqueue(crate::forecast::Seq { left: tokens, ..self.case.candidate });
        run.finish(outlook.fixed(), self.problem.now, Micros(u64::MAX));
        run.fates[self.case.candidate.who as usize]
    }

    fn is_in_time(&self, fate: Fate) -> bool {
        let who = self.case.who;
        super::scenarios::is_in_time(
            self.doubt(),
            self.problem.now,
            fate,
            who.deadline,
            who.first_by,
        )
    }

    /// What most of the time goes into.
    fn dominant(&self, own: Fate, alone: Fate) -> Dominant {
        if self.is_in_time(own) {
            let dear = self
                .sight
                .price_us
                .is_some_and(|price| price < own_cost_us(self.problem, self.choice, self.sight));
            return if dear { Dominant::Price } else { Dominant::Promises };
        }
        let now = self.problem.now;
        let (prefill, decode) = (alone.first.since(now), alone.end.since(alone.first));
        let queue = own.first.since(now).saturating_sub(prefill);
        let slowed = own.end.since(own.first).saturating_sub(decode);
        // Others who answer beside it slow the answer; those ahead of it delay its beginning.
        let terms = [
            (queue, Dominant::Queue),
            (prefill, Dominant::Prefill),
            (decode + slowed, Dominant::Decode),
        ];
        terms.iter().max_by_key(|(span, _)| *span).map_or(Dominant::Queue, |(_, term)| *term)
    }

    /// The largest cap that would get a promise now, or of a hopeless request from an idle engine.
    fn largest_cap(&self, hopeless: bool, run: &mut Run) -> Option<u32> {
        let most = self.case.candidate.left;
        let mut fits = |tokens: u32| {
            let fate = self.alone(tokens, run);
            self.is_in_time(fate) && (hopeless || self.is_good(tokens, run))
        };
        let (mut low, mut high) = (0, most.saturating_sub(1));
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            if fits(middle) { low = middle } else { high = middle - 1 }
        }
        (low > 0).then_some(low)
    }

    fn is_good(&self, tokens: u32, run: &mut Run) -> bool {
        let max_tokens = TokenCount(tokens);
        let context = crate::AdmissionContext { max_tokens, ..self.problem.context.clone() };
        let problem = Problem { context, ..self.problem.clone() };
        let case = case(self.twin, &problem, self.choice, self.sight, Tier::Promised);
        case.on_caps(self.doubt(), &self.sight.alone, &self.case.outlook.state, run).is_good()
    }

    /// How long until an arrival like this one would be in time, if nobody else comes.
    fn wait(&self, run: &mut Run) -> Option<Span> {
        let outlook = self.case.outlook;
        let budget = self.problem.context.budget;
        let mut in_time_after = |delay: Span| {
            let at = self.problem.now + delay;
            let by = |left: Option<Span>| left.map_or(Micros(u64::MAX), |left| at + left);
            let (deadline, first_by) = (by(budget.e2e), by(budget.ttft));
            let mut later = self.case.candidate;
            later.eligible_at = at;
            later.key.deadline = deadline;
            run.start(&outlook.state, outlook.who.len() + 1);
            run.state.everybody_mut().for_each(|it| it.watched = false);
            run.state.enqueue(later);
            run.finish(outlook.fixed(), outlook.busy_until, deadline);
            let fate = run.fates[later.who as usize];
            super::scenarios::is_in_time(self.doubt(), at, fate, deadline, first_by)
        };
        DELAYS_S.into_iter().map(Span::from_secs).find(|delay| in_time_after(*delay))
    }
}
