//! Options to a scenario.

use admit::{Limits, Policy, Settings};
use sim::{Machine, Named, Rung, Truth};
use units::{BlockCount, Span};

use super::{
    model::{self, Model},
    options::{Noise, PolicyName, RungName, WorldName, WorldOptions},
};

/// A machine, and what it is called.
pub(super) struct Made {
    pub(super) machine: Machine,
    pub(super) name: String,
}

/// What admission-svc's defaults are, but for these.
pub(crate) fn settings(policy: Policy, patience: Span, budget: Span) -> Settings {
    Settings {
        policy,
        lease: Span::from_millis(1_500),
        patience,
        budget,
        held_max: 256,
        standalone_max: 10_000,
    }
}

/// The machine that the options name.
///
/// # Errors
/// A calibration cannot be read.
pub(super) fn machine(options: &WorldOptions) -> anyhow::Result<Made> {
    let named = named(options.world);
    let mut machine = named.machine();
    let mut name = world_name(options.world).to_owned();
    if let Some(file) = &options.cost_model {
        let Model { cost, batch_tokens, prefill_tokens, name: model } = model::read(file)?;
        machine.believed = cost;
        machine.truth.cost = cost;
        machine.limits.batch_tokens = batch_tokens.max(machine.limits.slots);
        machine.limits.prefill_tokens = prefill_tokens;
        name = format!("{name}, model {model}");
    }
    if options.noise == Noise::None {
        machine.truth = Truth::exact(machine.truth.cost);
    }
    if let Some(slots) = options.slots {
        let limits = &mut machine.limits;
        let blocks = u64::from(limits.kv_blocks.0) * u64::from(slots) / u64::from(limits.slots);
        if options.world == WorldName::Small {
            limits.kv_blocks = BlockCount(u32::try_from(blocks).unwrap_or(u32::MAX));
        }
        limits.slots = slots;
        limits.unleased = slots;
        limits.batch_tokens = limits.batch_tokens.max(slots);
    }
    if let Some(prefill) = options.prefill_tokens {
        machine.limits.prefill_tokens = prefill;
        machine.limits.batch_tokens =
            machine.limits.batch_tokens.max(prefill + machine.limits.slots);
    }
    Ok(Made { machine, name })
}

pub(super) fn named(world: WorldName) -> Named {
    match world {
        WorldName::Seed => Named::Seed,
        WorldName::Small => Named::Small,
    }
}

fn world_name(world: WorldName) -> &'static str {
    match world {
        WorldName::Seed => "seed",
        WorldName::Small => "small",
    }
}

pub(super) fn rung(rung: RungName) -> Rung {
    match rung {
        RungName::Fifo => Rung::Fifo,
        RungName::Static => Rung::Static,
        RungName::Continuous => Rung::Continuous,
        RungName::Paged => Rung::Paged,
    }
}

pub(super) fn policy(options: &WorldOptions) -> Policy {
    match options.policy {
        PolicyName::Off => Policy::Off,
        PolicyName::Limit => {
            Policy::Limit(Limits { requests: options.limit_requests, ..Limits::default() })
        }
    }
}
