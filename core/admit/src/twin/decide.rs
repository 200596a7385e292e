//! Promise, best effort, or not now.

use units::{Micros, RequestId, Span};

use super::{
    BestEffort, Foresight, Twin,
    case::{Case, Finding},
    doubt::Doubt,
    explain::explain,
    price::Cost,
};
use crate::{
    Cause, Choice, Decision, Problem, Shortage, Tier, Totals,
    forecast::{Run, Who},
    sight::Sight,
};

/// What can be done for a request at one engine.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Offer {
    /// A promise, and whom it evicts.
    Promise(Finding, Vec<RequestId>),
    /// No promise, but a fair chance.
    BestEffort,
    Nothing,
}

/// Decides: the engine whose bound is smallest gets the request.
pub(crate) fn decide(twin: &Twin, problem: &Problem<'_>) -> Decision {
    let mut run = Run::default();
    let mut best: Option<(usize, Finding, Vec<RequestId>)> = None;
    let mut unpromised = None;
    for (index, choice) in problem.choices.iter().enumerate() {
        match offer(twin, problem, choice, &mut run) {
            Offer::Promise(found, evict) => {
                if best.as_ref().is_none_or(|(_, best, _)| found.bound < best.bound) {
                    best = Some((index, found, evict));
                }
            }
            Offer::BestEffort => unpromised = unpromised.or(Some(index)),
            Offer::Nothing => {}
        }
    }
    if let Some((choice, _, evict)) = best {
        return Decision::Admit {
            choice,
            tier: Tier::Promised,
            bound: problem.context.budget.e2e,
            confidence: Some(twin.level),
            evict,
            propensity: 1.0,
        };
    }
    match unpromised {
        Some(choice) => Decision::Admit {
            choice,
            tier: Tier::BestEffort,
            bound: None,
            confidence: None,
            evict: Vec::new(),
            propensity: 1.0,
        },
        None => Decision::Wait(Shortage {
            choice: 0,
            cause: Cause::Blind { stale: false },
            shortfall: Totals::default(),
            max_tokens_that_fit: None,
            wait: None,
        }),
    }
}

fn offer(twin: &Twin, problem: &Problem<'_>, choice: &Choice<'_>, run: &mut Run) -> Offer {
    let engine = &choice.engine;
    let asks = problem.context.accept_best_effort;
    let memory =
        u64::from(engine.snapshot.limits.slots) + u64::from(engine.snapshot.limits.waiting);
    if engine.totals.requests >= memory {
        return Offer::Nothing;
    }
    let Some(sight) = &engine.sight else {
        // Nothing is promised in the dark. Who accepts that may run; so may the first in an idle engine.
        return if asks || engine.totals.requests == 0 {
            Offer::BestEffort
        } else {
            Offer::Nothing
        };
    };
    if is_too_dear(problem, choice, sight) {
        return Offer::Nothing;
    }
    if engine.fresh
        && !sight.alarm
        && let Some(promise) = promise(twin, problem, choice, sight, run)
    {
        return promise;
    }
    // What is believed of an idle engine may be wrong: once in a while somebody finds out.
    let canary = sight.is_doubtful && engine.quiet >= twin.canary && engine.totals.requests == 0;
    if canary || best_effort(twin, problem, choice, sight, run) {
        return Offer::BestEffort;
    }
    Offer::Nothing
}

fn is_too_dear(problem: &Problem<'_>, choice: &Choice<'_>, sight: &Sight) -> bool {
    sight.price_us.is_some_and(|price| price < own_cost_us(problem, choice, sight))
}

/// Machine time that the request asks for at this choice.
pub(crate) fn own_cost_us(problem: &Problem<'_>, choice: &Choice<'_>, sight: &Sight) -> f64 {
    let context = &problem.context;
    let miss = context.prompt.saturating_sub(choice.cached).0;
    let answer = choice.law.mean(context.max_tokens.0);
    Cost::of(&sight.outlook.times, sight.outlook.limits.slots, miss, answer).shared_us
}

/// The candidate in the choice's outlook.
pub(super) fn case<'a>(
    twin: &Twin,
    problem: &Problem<'_>,
    choice: &Choice<'_>,
    sight: &'a Sight,
    tier: Tier,
) -> Case<'a> {
    let context = &problem.context;
    let by = |left: Option<Span>| {
        left.map_or(Micros(u64::MAX), |left| problem.now + left.saturating_sub(twin.overhead))
    };
    let who = Who {
        id: context.id,
        tier,
        deadline: by(context.budget.e2e),
        first_by: by(context.budget.ttft),
        generated: 0,
        runs: false,
    };
    let mut candidate = sight.outlook.newcomer(problem.size(choice), &who, problem.now);
    candidate.watched = true;
    Case { outlook: &sight.outlook, now: sight.made_at, candidate, who, impact: twin.impact }
}

fn promise(
    twin: &Twin,
    problem: &Problem<'_>,
    choice: &Choice<'_>,
    sight: &Sight,
    run: &mut Run,
) -> Option<Offer> {
    let case = case(twin, problem, choice, sight, Tier::Promised);
    let found = find(twin, choice, sight, &case, &sight.outlook.state, run);
    if found.is_good() {
        return Some(Offer::Promise(found, Vec::new()));
    }
    let mut victims = case.victims(twin.evictions_max as usize);
    let mut good = None;
    // All of them first: if that is not enough, nothing is.
    while !victims.is_empty() {
        let found = find(twin, choice, sight, &case, &case.without(&victims), run);
        if !found.is_good() {
            break;
        }
        good = Some(Offer::Promise(found, victims.clone()));
        victims.truncate(victims.len() / 2);
    }
    good
}

fn find(
    twin: &Twin,
    choice: &Choice<'_>,
    sight: &Sight,
    case: &Case<'_>,
    state: &crate::forecast::State,
    run: &mut Run,
) -> Finding {
    match (twin.foresight, &sight.scenarios) {
        (Foresight::Learnt { .. }, Some(scenarios)) => {
            case.over(scenarios, &choice.law, twin.level, state, run)
        }
        (Foresight::Learnt { .. } | Foresight::Caps { .. }, _) => {
            case.on_caps(Doubt::of(sight.margin), &sight.alone, state, run)
        }
    }
}

fn best_effort(
    twin: &Twin,
    problem: &Problem<'_>,
    choice: &Choice<'_>,
    sight: &Sight,
    run: &mut Run,
) -> bool {
    let asks = problem.context.accept_best_effort;
    if !asks && twin.best_effort == BestEffort::Asked {
        return false;
    }
    let case = case(twin, problem, choice, sight, Tier::BestEffort);
    let found = find(twin, choice, sight, &case, &sight.outlook.state, run);
    found.harms_nobody && (asks || found.likely >= twin.best_effort_level)
}

/// What keeps it out, where that is least. Takes longer than to decide.
pub(crate) fn shortage(twin: &Twin, problem: &Problem<'_>) -> Shortage {
    let mut run = Run::default();
    let explained = problem.choices.iter().enumerate().map(|(index, choice)| {
        let explanation = explain(twin, problem, choice, &mut run);
        (explanation.bound, index, explanation)
    });
    let (_, choice, explanation) =
        explained.min_by_key(|(bound, ..)| *bound).expect("a problem has a choice");
    let requests = Totals { requests: 1, ..Totals::default() };
    Shortage {
        choice,
        cause: explanation.cause,
        shortfall: requests,
        max_tokens_that_fit: explanation.max_tokens_that_fit,
        wait: explanation.wait,
    }
}

/// Why nothing can be said of an engine.
pub(super) fn blind(choice: &Choice<'_>) -> Cause {
    Cause::Blind { stale: choice.engine.sight.is_some() }
}
