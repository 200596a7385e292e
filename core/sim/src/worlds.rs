//! Machines and worlds by name.

use admit::Settings;
use kv::Layout;
use sched::{Bend, Limits, Order, Rules, StepCost};
use units::{BlockCount, Micros, Span, TokenCount};
use workload::{Budgets, Lengths, Mix, Source};

use crate::{Clients, EngineSpec, GatewaySpec, Natural, Rung, Scenario, Truth, Wires};

/// A machine with an engine, whatever the rung.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// Bounds, and those rules that no rung sets.
    pub limits: Limits,
    /// What is shared.
    pub layout: Layout,
    /// How many prefixes can be kept.
    pub owners: u32,
    /// What steps cost.
    pub truth: Truth,
    /// What the engine believes.
    pub believed: StepCost,
}

/// Worlds by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// The machine, the traffic and the scheduling rules that the seed project was measured with, as far as
    /// its tables tell: see `docs/SIMULATION.md`.
    Seed,
    /// This project's defaults on a machine of 16 slots whose steps cost what a model of 135 million
    /// parameters takes on two cores.
    Small,
}

/// What the seed project's decode measurements are multiplied by, to be what its service tells.
const SEED_DECODE: f64 = 1.35;
/// Milliseconds of a step with 1, 2, 4, 8, 16 and 32 sequences: measured at 1, 4, 8 and 16, the rest on
/// straight lines.
const SEED_DECODE_MS: [f64; 6] = [12.3, 14.7, 19.5, 38.9, 50.9, 74.9];

impl Named {
    /// Its machine.
    #[must_use]
    pub fn machine(self) -> Machine {
        match self {
            Self::Seed => seed_machine(),
            Self::Small => small_machine(),
        }
    }

    /// How long answers are.
    #[must_use]
    pub fn natural(self) -> Natural {
        match self {
            Self::Seed | Self::Small => Natural::Drawn(Lengths::LogNormal {
                mu: 4.15,
                sigma: 1.0,
                min: TokenCount(1),
                max: TokenCount(100_000),
            }),
        }
    }

    /// A scenario of its machine at a rung, with arrivals at these times, of the reference workload.
    #[must_use]
    pub fn scenario(
        self,
        rung: Rung,
        admission: Settings,
        arrivals: Vec<Micros>,
        seed: u64,
    ) -> Scenario {
        Scenario {
            seed,
            engines: vec![self.machine().at(rung)],
            admission,
            gateway: GatewaySpec::default(),
            clients: Clients {
                arrivals,
                source: Source::Mix(Mix::cadence()),
                seed,
                max_tokens: None,
                natural: self.natural(),
                budgets: Budgets::default(),
                accept_best_effort: false,
                timeout: Span::from_secs(300),
                retries: false,
                leaving: Vec::new(),
            },
            wires: Wires::local(),
            faults: Vec::new(),
        }
    }
}

impl Machine {
    /// An engine of this machine at a rung.
    #[must_use]
    pub fn at(&self, rung: Rung) -> EngineSpec {
        let limits = rung.limits(self.limits);
        let (kind, kv) = rung.core(&limits, self.layout, self.owners);
        EngineSpec { limits, kind, kv, believed: self.believed, truth: self.truth.clone() }
    }
}

/// 24 slots over 16,384 cells of one pool, chunks of 512 tokens, prompts first, no target for gaps and no
/// limit for steps: the rules of the seed project.
fn seed_machine() -> Machine {
    let bend = SEED_DECODE_MS.map(|ms| ms * 1_000.0 * SEED_DECODE);
    let cost = StepCost {
        base_us: 0.0,
        per_decode_us: 0.0,
        per_prefill_token_us: 600.0,
        per_cell_us: 0.0,
        gain: 1.0,
        per_tiled_cell_us: 0.0,
        prompt_us: 3_000.0,
        bend: Bend::new(&bend),
    };
    Machine {
        limits: Limits {
            slots: 24,
            context_tokens: 4_096,
            batch_tokens: 536,
            prefill_tokens: 512,
            step: Span::from_secs(60),
            waiting: 100_000,
            unleased: 24,
            kv_blocks: BlockCount(1_024),
            rules: Rules { order: Order::PrefillFirst, ..Rules::default() },
        },
        layout: Layout::Unified,
        owners: 200,
        truth: Truth::busy(cost),
        believed: cost,
    }
}

fn small_machine() -> Machine {
    let cost = StepCost::GUESS;
    Machine {
        limits: Limits {
            slots: 16,
            context_tokens: 4_096,
            batch_tokens: 512,
            prefill_tokens: 512,
            step: Span::from_millis(500),
            waiting: 256,
            unleased: 16,
            kv_blocks: BlockCount(4_096),
            rules: Rules { itl: Some(Span::from_millis(200)), ..Rules::default() },
        },
        layout: Layout::Streams { token_bytes: 23_040, bytes_max: 512 << 20 },
        owners: 4_096,
        truth: Truth::busy(cost),
        believed: cost,
    }
}
