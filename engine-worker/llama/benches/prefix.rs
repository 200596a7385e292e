//! Question: how much sooner does an answer begin whose prompt begins with a prefix that is kept?
//!
//! A prompt of 512 tokens and 16 of its own, computed; then the same 512 with 16 others. From submission to
//! the first token, scheduler, KV core, context and text layer included. Every round has its own prefix; prints
//! medians, and the ratio of each pair.
//!
//! `cargo bench --workspace --bench prefix`, on a machine that does nothing else. The model is that of
//! `make model`, or CADENCE_TEST_MODEL. Under `cargo test` it runs one small round.

#![expect(clippy::print_stdout, reason = "a benchmark prints")]

#[path = "common/drive.rs"]
mod drive;
#[path = "common/model.rs"]
mod model;

use std::{
    env,
    time::{Duration, Instant},
};

use drive::Drive;
use llama::{LayoutKind, Model, Options};
use sample::Sampling;
use sched::{Limits, Submission, Tier};
use text::Tokenizer as _;
use units::{BlockCount, Micros, RequestId, Span, Token};

const CONTEXT_TOKENS: u32 = 768;
const OWN_TOKENS: usize = 16;
const SLOTS: u32 = 16;
const OWNERS: u32 = 64;

/// What is run.
struct Plan {
    prefix: usize,
    rounds: u32,
}

fn main() {
    let measured = env::args().any(|arg| arg == "--bench");
    let plan =
        if measured { Plan { prefix: 512, rounds: 24 } } else { Plan { prefix: 32, rounds: 1 } };
    let model = Model::open(&model::path(), 0).expect("a model; run `make model`");
    println!("{} + {OWN_TOKENS} tokens, medians of {} rounds", plan.prefix, plan.rounds);
    println!("| layout | cold ms | kept ms | of it outside llama.cpp | kept / cold (min to max) |");
    println!("|---|---|---|---|---|");
    let unified = LayoutKind::Unified { cells: SLOTS * CONTEXT_TOKENS };
    for (name, layout) in [("streams", LayoutKind::Streams), ("unified", unified)] {
        report(name, &run(&model, layout, &plan));
    }
}

/// How long a first token took, and what of that was spent outside llama.cpp's decoding.
struct First {
    took: Duration,
    outside: Duration,
}

/// First tokens: cold, and with the prefix kept.
fn run(model: &Model, layout: LayoutKind, plan: &Plan) -> Vec<(First, First)> {
    let mut context = model
        .context(&Options {
            slots: SLOTS,
            context_tokens: CONTEXT_TOKENS,
            batch_tokens: CONTEXT_TOKENS,
            threads: model::threads(),
            owners: OWNERS,
            layout,
        })
        .expect("a context");
    let kept = match layout {
        LayoutKind::Streams => kv::Layout::Streams { token_bytes: 1, bytes_max: u64::MAX },
        LayoutKind::Unified { .. } => kv::Layout::Unified,
    };
    let limits = limits();
    let cache = kv::Kind::Paged.build(kv::Options {
        blocks: limits.kv_blocks,
        layout: kept,
        owners: OWNERS,
        prefixes: true,
    });
    let mut drive = Drive::new(model, &mut context, limits, cache);
    let mut asked = 0;
    let mut first_token = |prompt: Vec<Token>| {
        asked += 1;
        let (begun, inside) = (Instant::now(), drive.decoding());
        drive.submit(submission(asked, prompt));
        while drive.step().expect("an answer begins") == 0 {}
        let took = begun.elapsed();
        let inside = drive.decoding().saturating_sub(inside);
        while drive.step().is_some() {}
        First { took, outside: took.saturating_sub(inside.into()) }
    };
    let round = |round| {
        let prefix = tokens(model, &format!("Chapter {round}. "), plan.prefix);
        let with = |own: &str| [prefix.clone(), tokens(model, own, OWN_TOKENS)].concat();
        (first_token(with("Once more, ")), first_token(with("Never again ")))
    };
    (0..plan.rounds).map(round).collect()
}

fn tokens(model: &Model, begin: &str, count: usize) -> Vec<Token> {
    let mut tokens = Vec::new();
    let text = begin.to_owned() + &"the quick brown fox jumps over the lazy dog. ".repeat(60);
    model.encode_plain(&text, &mut tokens);
    tokens.truncate(count);
    tokens
}

fn submission(number: u128, prompt: Vec<Token>) -> Submission {
    Submission {
        id: RequestId(number),
        submitted_at: Micros(0),
        prompt: prompt.into(),
        sampling: Sampling::GREEDY,
        top_logprobs: None,
        max_tokens: 2,
        tier: Tier::BestEffort,
        epoch: Some(1),
        deadline: None,
        first_token: None,
        evict: Vec::new(),
    }
}

fn limits() -> Limits {
    Limits {
        slots: SLOTS,
        context_tokens: CONTEXT_TOKENS,
        batch_tokens: CONTEXT_TOKENS,
        prefill_tokens: CONTEXT_TOKENS,
        step: Span::from_secs(60),
        waiting: 64,
        unleased: 64,
        kv_blocks: BlockCount(SLOTS * CONTEXT_TOKENS / 16),
        rules: sched::Rules::default(),
    }
}

fn report(name: &str, pairs: &[(First, First)]) {
    let spread = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        (values[values.len() / 2], values[0], values[values.len() - 1])
    };
    let millis = |time: Duration| time.as_secs_f64() * 1e3;
    let cold = spread(pairs.iter().map(|(cold, _)| millis(cold.took)).collect());
    let kept = spread(pairs.iter().map(|(_, kept)| millis(kept.took)).collect());
    let outside = spread(pairs.iter().map(|(_, kept)| millis(kept.outside)).collect());
    let ratio = |(cold, kept): &(First, First)| millis(kept.took) / millis(cold.took);
    let ratio = spread(pairs.iter().map(ratio).collect());
    println!(
        "| {name} | {:.0} | {:.1} | {:.2} | {:.3} ({:.3} to {:.3}) |",
        cold.0, kept.0, outside.0, ratio.0, ratio.1, ratio.2
    );
}
