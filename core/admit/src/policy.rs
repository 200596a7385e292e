//! Policy: problem in, solution out.
//!
//! A problem holds what is knowable when a request asks to come in, and nothing else: the request
//! itself and the state of the engines. No type in it leads to an outcome, so no policy can learn
//! from what it is about to cause.

use std::sync::Arc;

use units::{Micros, RequestId, Span, TokenCount};

use crate::{
    Budget, Cause, Deferral, EngineLimits, Foresight, Limits, Snapshot, Tier, Totals, Twin,
    entry::Size,
    lengths::Law,
    limit::{self, Bounds},
    sight::Sight,
    twin,
};

/// Who gets in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Policy {
    /// Everybody whom the engine's memory can hold: its slots and its queue. Promises nothing.
    Off,
    /// The same; but what is past its deadline is to be aborted. Who runs is the engine's matter: this
    /// policy only declares that the engine has to be set to abort all late work.
    Abort,
    /// As many requests, tokens and KV blocks as the limits say. Promises nothing.
    Limit(Limits),
    /// As many requests as were in time lately: more while they are, fewer when they are not. Promises
    /// nothing.
    Adaptive,
    /// Whom a simulation of the engine finds in time, and whose coming leaves every promise in time.
    Twin(Twin),
}

/// The request, as it is when it asks.
#[derive(Clone, Debug, PartialEq)]
pub struct AdmissionContext {
    /// Which request.
    pub id: RequestId,
    /// Length of the prompt.
    pub prompt: TokenCount,
    /// Cap on generated tokens.
    pub max_tokens: TokenCount,
    /// What remains of its budget now.
    pub budget: Budget,
    /// How long it was held so far.
    pub held: Span,
    /// Whether it may be served without a promise where promises are made.
    pub accept_best_effort: bool,
    /// Higher is more urgent.
    pub priority: i32,
    /// Who asks.
    pub tenant: Arc<str>,
}

/// An engine, as it is when somebody asks.
#[derive(Clone, Debug)]
pub struct EngineView<'a> {
    /// Its last published state.
    pub snapshot: &'a Snapshot,
    /// What is in its system now, leases included.
    pub totals: Totals,
    /// KV blocks that a newcomer could take and keep, were nobody to grow: free and reclaimable.
    pub room: u64,
    /// Tokens a second.
    pub rate: f64,
    /// Whether that was measured; else it is the cost model's, or a default.
    pub rate_measured: bool,
    /// Whether the state is recent enough to promise anything.
    pub fresh: bool,
    /// How long nobody was let in.
    pub quiet: Span,
    /// The limit of [`Policy::Adaptive`].
    pub adaptive: u64,
    /// What a twin sees; absent with other policies, and when the engine plans by rules that are not known
    /// here.
    pub(crate) sight: Option<Arc<Sight>>,
}

/// A candidate that is up and physically big enough.
#[derive(Clone, Debug)]
pub struct Choice<'a> {
    /// Index into the offer's candidates.
    pub candidate: usize,
    /// Tokens of the prompt that it has cached.
    pub cached: TokenCount,
    /// Its state.
    pub engine: EngineView<'a>,
    /// How long its answer there may be.
    pub(crate) law: Arc<Law>,
}

/// What is to be decided.
#[derive(Clone, Debug)]
pub struct Problem<'a> {
    /// When.
    pub now: Micros,
    /// About whom.
    pub context: AdmissionContext,
    /// Where; at least one.
    pub choices: &'a [Choice<'a>],
}

/// The solution.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// Let it in.
    Admit {
        /// Index into the problem's choices.
        choice: usize,
        /// What is promised.
        tier: Tier,
        /// The promised bound.
        bound: Option<Span>,
        /// Its confidence.
        confidence: Option<f64>,
        /// Best-effort requests to evict for it.
        evict: Vec<RequestId>,
        /// The probability with which this was drawn; 1 when nothing was.
        propensity: f64,
    },
    /// Not now.
    Wait(Shortage),
}

/// What keeps a request out, at the choice where it will be let in soonest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// Index into the problem's choices.
    pub choice: usize,
    /// What is missing.
    pub cause: Cause,
    /// What has to leave the system first: requests, tokens and KV blocks count.
    pub shortfall: Totals,
    /// The largest cap on generated tokens that would be let in.
    pub max_tokens_that_fit: Option<u32>,
    /// Until it would be let in, where the policy foresees that.
    pub wait: Option<Span>,
}

impl Policy {
    /// Its name in configuration, responses and traces.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Abort => "abort",
            Self::Limit(_) => "limit",
            Self::Adaptive => "adaptive",
            Self::Twin(twin) => twin.name(),
        }
    }

    /// Whether the engine has to be set to abort all late work, for the policy to be what it says.
    #[must_use]
    pub fn wants_abort(&self) -> bool {
        matches!(self, Self::Abort)
    }

    /// The twin, if it is one.
    #[must_use]
    pub fn twin(&self) -> Option<&Twin> {
        match self {
            Self::Twin(twin) => Some(twin),
            Self::Off | Self::Abort | Self::Limit(_) | Self::Adaptive => None,
        }
    }

    /// Whether requests that do not fit stand in the way of those behind them.
    pub(crate) fn queues(&self) -> bool {
        self.twin().is_none()
    }

    /// How held requests are looked at, if not in turn.
    pub(crate) fn deferral(&self) -> Option<Deferral> {
        self.twin().and_then(|twin| twin.deferral)
    }

    /// Over how many scenarios it decides.
    pub(crate) fn scenarios(&self) -> Option<u32> {
        self.twin().and_then(|twin| match twin.foresight {
            Foresight::Caps { .. } => None,
            Foresight::Learnt { scenarios } => Some(scenarios),
        })
    }

    /// Decides.
    #[must_use]
    pub fn decide(&self, problem: &Problem<'_>) -> Decision {
        match self {
            Self::Off | Self::Abort => limit::decide(problem, |it| Bounds::memory(limits_of(it))),
            Self::Limit(limits) => limit::decide(problem, |it| limits.bounds(limits_of(it))),
            Self::Adaptive => limit::decide(problem, |it| {
                let limits = Limits { requests: it.engine.adaptive.max(1), ..Limits::default() };
                limits.bounds(limits_of(it))
            }),
            Self::Twin(twin) => twin::decide(twin, problem),
        }
    }

    /// Says why somebody who is not let in is not, as far as it can be said.
    pub(crate) fn explain(&self, problem: &Problem<'_>) -> Decision {
        match self {
            Self::Twin(twin) => Decision::Wait(twin::shortage(twin, problem)),
            Self::Off | Self::Abort | Self::Limit(_) | Self::Adaptive => self.decide(problem),
        }
    }
}

fn limits_of<'a>(choice: &'a Choice<'_>) -> &'a EngineLimits {
    &choice.engine.snapshot.limits
}

impl Problem<'_> {
    pub(crate) fn size(&self, choice: &Choice<'_>) -> Size {
        let AdmissionContext { prompt, max_tokens, .. } = self.context;
        Size { prompt, cached: choice.cached, max_tokens }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is knowable at admission is a type: a problem goes in, a decision comes out, and neither
    /// an entry, a trace nor an observation is among the arguments. Compiles, or does not.
    #[test]
    fn a_policy_sees_a_problem_and_nothing_else() {
        let _: for<'a, 'b> fn(&'a Policy, &'a Problem<'b>) -> Decision = Policy::decide;
        let AdmissionContext {
            id: _,
            prompt: _,
            max_tokens: _,
            budget: _,
            held: _,
            accept_best_effort: _,
            priority: _,
            tenant: _,
        } = AdmissionContext {
            id: RequestId(1),
            prompt: TokenCount(1),
            max_tokens: TokenCount(1),
            budget: Budget::default(),
            held: Span::ZERO,
            accept_best_effort: false,
            priority: 0,
            tenant: "".into(),
        };
        let _: fn(EngineView<'_>) = |EngineView {
                                         snapshot: _,
                                         totals: _,
                                         room: _,
                                         rate: _,
                                         rate_measured: _,
                                         fresh: _,
                                         quiet: _,
                                         adaptive: _,
                                         sight: _,
                                     }| {};
    }
}
