//! How much of what could be found is found.

use std::collections::BTreeSet;

use kv::{Layout, block_hashes};
use sched::{Command, Limits, StepCost};
use units::{BLOCK_TOKENS, BlockCount, Span};

use crate::{
    rig::{Luck, Rig, Setup, request},
    script::{KEEPING, LIMITS},
    trace::{Arrival, arrivals},
};

fn server(layout: Layout) -> Setup {
    let limits = Limits {
        slots: 24,
        context_tokens: 2_048,
        batch_tokens: 512,
        prefill_tokens: 512,
        step: Span::from_millis(500),
        waiting: 1_000,
        kv_blocks: BlockCount(1_024),
        ..LIMITS
    };
    Setup { limits, layout, cost: StepCost::GUESS, owners: 200, ..KEEPING }
}

/// Tokens that could be found if every prompt were kept whole from its arrival on: of each, its whole
/// blocks that an earlier prompt begins with as well, but for its last token.
fn ceiling(trace: &[Arrival]) -> u64 {
    let mut seen = BTreeSet::new();
    let findable = trace.iter().map(|arrival| {
        let hashes: Vec<_> = block_hashes(&arrival.prompt).collect();
        let known = hashes.iter().take_while(|hash| seen.contains(*hash)).count();
        seen.extend(hashes);
        (known * BLOCK_TOKENS as usize).min(arrival.prompt.len() - 1) as u64
    });
    findable.sum()
}

/// Runs the trace and says how many prompt tokens were found.
fn found(setup: &Setup, trace: &[Arrival]) -> u64 {
    let mut rig = Rig::new(setup);
    let mut rest = trace.iter().enumerate().peekable();
    while rest.peek().is_some() || !rig.open.is_empty() {
        while let Some((id, arrival)) = rest.next_if(|(_, arrival)| arrival.at <= rig.now) {
            let prompt = arrival.prompt.clone();
            let submission = request(id as u128, arrival.at, prompt, arrival.answer);
            rig.command(Command::Submit(submission));
        }
        if rig.step(Luck::Good).is_none() {
            let next = rest.peek().expect("whoever is left will arrive").1.at;
            rig.now = rig.now.max(next);
        }
    }
    assert_eq!((rig.ended.len(), rig.refused), (trace.len(), 0));
    rig.ended.values().map(|(_, usage, _)| u64::from(usage.cached_tokens)).sum()
}

#[test]
fn nearly_all_that_could_be_found_is_found() {
    let trace = arrivals(1, 1_000, 0.7);
    let asked: u64 = trace.iter().map(|arrival| arrival.prompt.len() as u64).sum();
    let ceiling = ceiling(&trace);
    let states = Layout::Streams { token_bytes: 23_000, bytes_max: 1 << 30 };
    for layout in [Layout::Unified, states] {
        let found = found(&server(layout), &trace);
        println!("{layout:?}: found {found} of {ceiling} findable in {asked} tokens");
        assert!(found as f64 >= 0.98 * ceiling as f64, "{layout:?}: {found} of {ceiling}");
    }
}
