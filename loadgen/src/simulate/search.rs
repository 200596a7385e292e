//! `loadgen simulate search`.

use std::{
    cell::RefCell,
    panic::{self, AssertUnwindSafe},
    time::Instant,
};

use clap::Args;
use sim::{Scenario, search};

use super::in_parallel;
use crate::{console, exit::Exit};

/// Run random worlds with faults, and look for what must not happen.
///
/// Each seed is a world of its own: few slots and blocks, short budgets, bursts, clients that leave, engines
/// and admission that die or stand still, messages that are late or lost. An auditor keeps books of
/// everything that happens. What it finds is shown with its seed, and the world is made as small as it can be
/// with the finding still in it.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// So many worlds
    #[arg(long, default_value_t = 100)]
    seeds: u64,
    /// The first of them
    #[arg(long, default_value_t = 0)]
    first: u64,
}

/// Why a world is no good.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Verdict {
    /// The same in worlds that fail alike.
    kind: String,
    text: String,
}

/// Searches, and says what was found.
///
/// # Errors
/// None: what fails is a finding.
pub(super) fn run(options: &Options) -> anyhow::Result<Exit> {
    let begun = Instant::now();
    silence_panics();
    let last = options.first.saturating_add(options.seeds);
    let seeds: Vec<u64> = (options.first..last).collect();
    let verdicts = in_parallel(&seeds, |seed| judge(&search::draw(*seed)));
    let failed: Vec<_> =
        seeds.iter().zip(verdicts).filter_map(|(seed, it)| Some((*seed, it?))).collect();
    for (seed, verdict) in &failed {
        console::say(&format!("seed {seed}: {}", verdict.text));
        let smallest = search::shrink(&search::draw(*seed), |world| {
            judge(world).is_some_and(|it| it.kind == verdict.kind)
        });
        console::say(&describe(&smallest));
        if let Some(verdict) = judge(&smallest) {
            console::say(&format!("  there: {}", verdict.text));
        }
    }
    let secs = begun.elapsed().as_secs_f64();
    console::say(&format!("{} worlds, {} with findings, {secs:.1} s", seeds.len(), failed.len()));
    Ok(if failed.is_empty() { Exit::Done } else { Exit::Failed })
}

thread_local! {
    static PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// A panic in a world is a finding, and says so itself.
fn silence_panics() {
    panic::set_hook(Box::new(|info| {
        let text = info.to_string().replace('\n', " ");
        PANIC.with(|said| *said.borrow_mut() = text);
    }));
}

/// What is wrong with a world, if anything is.
fn judge(world: &Scenario) -> Option<Verdict> {
    let outcome = panic::catch_unwind(AssertUnwindSafe(|| sim::run(world)));
    match outcome {
        Ok(report) => report
            .findings
            .first()
            .map(|finding| Verdict { kind: finding.rule.name().into(), text: finding.to_string() }),
        Err(_) => {
            let text = PANIC.with(|said| said.borrow().clone());
            Some(Verdict { kind: "panic".into(), text })
        }
    }
}

fn describe(world: &Scenario) -> String {
    let Scenario { engines, admission, clients, faults, .. } = world;
    let spec = &engines[0];
    let last = clients.arrivals.last().map_or(0.0, |at| at.0 as f64 / 1e6);
    format!(
        "  smallest: {} requests until {last:.3} s, {} engines ({:?}, {:?}, {:?})\n  admission: {:?}, \
         patience {}, budget {}\n  faults: {faults:?}",
        clients.arrivals.len(),
        engines.len(),
        spec.limits,
        spec.kind,
        spec.kv,
        admission.policy,
        admission.patience,
        admission.budget,
    )
}
