//! Everything that a run depends on, as plain data.

use sched::{Limits, StepCost};
use units::{Micros, Span};
use workload::{Budgets, Lengths, Source};

use crate::{Fault, Truth};

/// A run before it runs. The same scenario gives the same run, to the last event.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// Of everything that is drawn and not said here.
    pub seed: u64,
    /// The engines, all watched by one admission service. At least one.
    pub engines: Vec<EngineSpec>,
    /// The admission service.
    pub admission: admit::Settings,
    /// The gateways, which keep nothing and so count as one.
    pub gateway: GatewaySpec,
    /// Who asks what, and when.
    pub clients: Clients,
    /// How long messages take.
    pub wires: Wires,
    /// What goes wrong.
    pub faults: Vec<Fault>,
}

/// One engine.
#[derive(Clone, Debug, PartialEq)]
pub struct EngineSpec {
    /// Its bounds and rules.
    pub limits: Limits,
    /// Its KV core.
    pub kind: kv::Kind,
    /// What the core is made of.
    pub kv: kv::Options,
    /// What it believes that steps cost when it starts.
    pub believed: StepCost,
    /// What they cost.
    pub truth: Truth,
}

/// What gateways do when something does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GatewaySpec {
    /// For the engine to answer a call.
    pub engine_timeout: Span,
    /// For admission to say anything, beyond the patience.
    pub decide_timeout: Span,
    /// Requests that run at once without admission's word, while it is not there.
    pub fallback_requests: u32,
    /// Their budget where they name none.
    pub fallback_budget: Span,
}

/// Who asks what, and when.
#[derive(Clone, Debug, PartialEq)]
pub struct Clients {
    /// When requests arrive, in order.
    pub arrivals: Vec<Micros>,
    /// What they ask, by number.
    pub source: Source,
    /// The seed of what they ask: other arrivals ask the same.
    pub seed: u64,
    /// Cap on all answers, instead of what the source draws.
    pub max_tokens: Option<u32>,
    /// How long answers would be without a cap.
    pub natural: Natural,
    /// What requests tell of their time, where they say nothing themselves.
    pub budgets: Budgets,
    /// Whether they would do without a promise.
    pub accept_best_effort: bool,
    /// When a client gives up, counted from the intended arrival.
    pub timeout: Span,
    /// Whether clients try again as OpenAI's libraries do.
    pub retries: bool,
    /// Who leaves early: request, and how long after its intended arrival.
    pub leaving: Vec<(u64, Span)>,
}

/// How long answers are by themselves.
#[derive(Clone, Debug, PartialEq)]
pub enum Natural {
    /// They go on to their cap.
    Cap,
    /// Drawn for each request, from its own number, and cut at the cap.
    Drawn(Lengths),
    /// By number; those that are not listed go on to their cap.
    Listed(Vec<u32>),
}

/// How long messages take, one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wires {
    /// Between client and gateway.
    pub client: Delay,
    /// Between gateway and admission.
    pub decide: Delay,
    /// Between gateway and engine.
    pub generate: Delay,
    /// Between engine and admission.
    pub watch: Delay,
    /// What the engine takes to render, tokenise and look up a prompt.
    pub prepare: Delay,
}

/// A time that varies evenly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delay {
    /// At least.
    pub fixed: Span,
    /// And up to this much more.
    pub jitter: Span,
}

impl Delay {
    /// Always the same.
    #[must_use]
    pub const fn always(fixed: Span) -> Self {
        Self { fixed, jitter: Span::ZERO }
    }
}

impl Wires {
    /// All processes on one machine, as measured there: a call takes a fraction of a millisecond.
    #[must_use]
    pub fn local() -> Self {
        let short = Delay { fixed: Span(100), jitter: Span(100) };
        Self {
            client: short,
            decide: short,
            generate: short,
            watch: short,
            prepare: Delay { fixed: Span(500), jitter: Span(500) },
        }
    }
}

impl Default for GatewaySpec {
    /// The gateway's own defaults.
    fn default() -> Self {
        Self {
            engine_timeout: Span::from_secs(10),
            decide_timeout: Span::from_secs(2),
            fallback_requests: 4,
            fallback_budget: Span::from_secs(60),
        }
    }
}
