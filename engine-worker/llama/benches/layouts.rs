//! Question: what does it cost to keep a prefix of 512 tokens, to begin with it, and to drop it?
//!
//! In both layouts, with 1 slot and with 16 full ones. Prints medians of the time that a step spends on moves and
//! on beginning sequences, and the size of what is kept.
//!
//! `cargo bench --workspace --bench layouts`, on a machine that does nothing else. The model is that of
//! `make model`, or CADENCE_TEST_MODEL. Under `cargo test` it runs one small round.

#![expect(clippy::print_stdout, reason = "a benchmark prints")]

#[path = "common/model.rs"]
mod model;

use std::{env, sync::Arc};

use llama::{Context, LayoutKind, Model, Options};
use sample::Sampling;
use sched::{Decode, Engine as _, Join, Move, Prefill, Reuse, StepPlan};
use text::Tokenizer as _;
use units::{Owner, RequestId, Slot, Span, Token};

const CONTEXT_TOKENS: u32 = 768;
const OWNER: Owner = Owner(0);

/// What is run.
struct Plan {
    slots: &'static [u32],
    prefix: u32,
    rounds: u32,
}

/// One layout with full slots.
struct Bench<'model> {
    context: Context<'model>,
    /// One token longer than the prefix.
    prompt: Arc<[Token]>,
    slots: u32,
}

/// How long each took, and how large it was.
#[derive(Default)]
struct Costs {
    keep: Vec<Span>,
    reuse: Vec<Span>,
    give_up: Vec<Span>,
    clear: Vec<Span>,
    kept_bytes: u64,
}

fn main() {
    let measured = env::args().any(|arg| arg == "--bench");
    let plan = if measured {
        Plan { slots: &[1, 16], prefix: 512, rounds: 48 }
    } else {
        Plan { slots: &[2], prefix: 16, rounds: 2 }
    };
    let model = Model::open(&model::path(), 0).expect("a model; run `make model`");
    println!("a prefix of {} tokens, medians of {} rounds", plan.prefix, plan.rounds);
    println!("| layout | slots | keep us | reuse us | drop us | clear us | kept bytes |");
    println!("|---|---|---|---|---|---|---|");
    for &slots in plan.slots {
        let unified = LayoutKind::Unified { cells: slots * CONTEXT_TOKENS };
        for (name, layout) in [("streams", LayoutKind::Streams), ("unified", unified)] {
            let mut bench = Bench::new(&model, slots, layout, plan.prefix);
            let costs = bench.run(plan.rounds);
            report(name, slots, costs);
        }
    }
}

impl<'model> Bench<'model> {
    fn new(model: &'model Model, slots: u32, layout: LayoutKind, prefix: u32) -> Self {
        let options = Options {
            slots,
            context_tokens: CONTEXT_TOKENS,
            batch_tokens: CONTEXT_TOKENS,
            threads: model::threads(),
            owners: 1,
            layout,
        };
        let mut prompt = Vec::new();
        model
            .encode_plain(&"The quick brown fox jumps over the lazy dog. ".repeat(60), &mut prompt);
        prompt.truncate(prefix as usize + 1);
        let context = model.context(&options).expect("a context");
        Self { context, prompt: prompt.into(), slots }
    }

    fn run(&mut self, rounds: u32) -> Costs {
        let mut costs = Costs::default();
        for slot in (0..self.slots).map(Slot) {
            costs.clear.push(self.join(slot, None));
        }
        let tokens = u32::try_from(self.prompt.len()).expect("a short prompt") - 1;
        for round in 0..rounds {
            let slot = Slot(round % self.slots);
            let keep = Move::Keep { slot, owner: OWNER, tokens };
            // A slot holds the prompt, and the token that its last round has added.
            let held = tokens + 1 + u32::from(round >= self.slots);
            costs.keep.push(self.go_on(slot, held, keep));
            costs.kept_bytes = self.context.kept_bytes();
            costs.reuse.push(self.join(slot, Some(Reuse { owner: OWNER, tokens })));
            costs.give_up.push(self.go_on(slot, tokens + 1, Move::Drop { owner: OWNER }));
        }
        costs
    }

    /// The slot begins and computes what it does not reuse.
    fn join(&mut self, slot: Slot, reuse: Option<Reuse>) -> Span {
        let history = self.prompt.clone();
        let range = reuse.map_or(0, |reuse| reuse.tokens as usize)..history.len();
        let (id, last) = (RequestId(slot.0.into()), true);
        let prefill = Prefill { slot, id, prompt: history.clone(), range, last };
        let sampling = Sampling::GREEDY;
        let join = Join { slot, id, sampling, history, sampled: 0, top_logprobs: None, reuse };
        self.step(&StepPlan { joins: vec![join], prefills: vec![prefill], ..StepPlan::default() })
    }

    /// The slot decodes a token after a move.
    fn go_on(&mut self, slot: Slot, position: u32, first: Move) -> Span {
        let id = RequestId(slot.0.into());
        let decode = Decode { slot, id, token: self.prompt[0], position };
        let (moves, decodes) = (vec![first], vec![decode]);
        self.step(&StepPlan { moves, decodes, ..StepPlan::default() })
    }

    /// What the step spends on moves and on beginning.
    fn step(&mut self, plan: &StepPlan) -> Span {
        let before = self.context.moving();
        let outcome = self.context.execute(plan).expect("a step");
        assert_eq!(outcome.lost, []);
        self.context.moving().saturating_sub(before)
    }
}

fn report(name: &str, slots: u32, costs: Costs) {
    let median = |mut times: Vec<Span>| {
        times.sort_unstable();
        times[times.len() / 2].as_secs_f64() * 1e6
    };
    let Costs { keep, reuse, give_up, clear, kept_bytes } = costs;
    println!(
        "| {name} | {slots} | {:.0} | {:.0} | {:.0} | {:.0} | {kept_bytes} |",
        median(keep),
        median(reuse),
        median(give_up),
        median(clear)
    );
}
