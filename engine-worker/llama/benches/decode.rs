//! Question: what does the engine cost on top of llama.cpp?
//!
//! Decode throughput of scheduler, context and text layer against the bare loop: same model, layout and
//! threads, the two in turn within one run (A B B A ...). Prints tokens per second, the ratio of each
//! pair, and the share of a step that is spent outside llama.cpp.
//!
//! `cargo bench --workspace --bench decode`, on a machine that does nothing else. The model is that of
//! `make model`, or CADENCE_TEST_MODEL. Under `cargo test` it runs one small round.

#![expect(clippy::print_stdout, reason = "a benchmark prints")]

#[path = "common/drive.rs"]
mod drive;
#[path = "common/model.rs"]
mod model;

use std::{env, time::Instant};

use drive::Drive;
use llama::{Context, LayoutKind, Model, Options, Yardstick};
use sample::Sampling;
use sched::{Limits, Submission, Tier};
use text::Tokenizer as _;
use units::{BlockCount, Micros, RequestId, Span, Token};

const PROMPT_TOKENS: usize = 64;
const CONTEXT_TOKENS: u32 = 512;
/// Room for the prompts of all sequences: the step that computes them is not timed.
const BATCH_TOKENS: u32 = 1_536;

/// What is run.
struct Plan {
    widths: &'static [u32],
    tokens: u32,
    pairs: usize,
}

/// Both loops on one model.
struct Bench<'model> {
    model: &'model Model,
    bare: Yardstick<'model>,
    engine: Context<'model>,
    prompt: Vec<Token>,
}

/// What every sequence of a run does.
struct Work {
    width: u32,
    tokens: u32,
    sampling: Sampling,
}

/// Decoding, and what share of it was spent outside llama.cpp.
struct Run {
    tokens_per_second: f64,
    outside: f64,
}

fn main() {
    let measured = env::args().any(|arg| arg == "--bench");
    let plan = if measured {
        Plan { widths: &[1, 4, 8, 16, 24], tokens: 48, pairs: 11 }
    } else {
        Plan { widths: &[2], tokens: 4, pairs: 1 }
    };
    let model = Model::open(&model::path(), 0).expect("a model; run `make model`");
    let threads = model::threads();
    let options = Options {
        slots: 24,
        context_tokens: CONTEXT_TOKENS,
        batch_tokens: BATCH_TOKENS,
        threads,
        owners: 0,
        layout: LayoutKind::Streams,
    };
    let mut bench = Bench {
        model: &model,
        bare: model.yardstick(&options).expect("a context"),
        engine: model.context(&options).expect("a context"),
        prompt: prompt(&model),
    };

    let Plan { widths, tokens, pairs } = plan;
    println!("{threads} threads, {tokens} tokens a sequence, median of {pairs} pairs (min to max)");
    println!(
        "| sampling | sequences | bare tok/s | engine tok/s | engine / bare | outside llama.cpp |"
    );
    println!("|---|---|---|---|---|---|");
    for (name, sampling) in [("greedy", sampling(0.0, 0)), ("top_k 40", sampling(0.8, 40))] {
        for &width in widths {
            let work = Work { width, tokens, sampling: sampling.clone() };
            let measured: Vec<_> = (0..pairs).map(|pair| bench.pair(pair, &work)).collect();
            report(name, width, &measured);
        }
    }
}

fn sampling(temperature: f32, top_k: u32) -> Sampling {
    Sampling { temperature, top_k, seed: 1, ..Sampling::GREEDY }
}

fn prompt(model: &Model) -> Vec<Token> {
    let mut prompt = Vec::new();
    model.encode_plain(&"The quick brown fox jumps over the lazy dog. ".repeat(9), &mut prompt);
    prompt.truncate(PROMPT_TOKENS);
    prompt
}

impl Bench<'_> {
    /// The same work for both, in alternating order.
    fn pair(&mut self, pair: usize, work: &Work) -> (f64, Run) {
        if pair.is_multiple_of(2) {
            let bare = self.run_bare(work);
            (bare, self.run_engine(work))
        } else {
            let engine = self.run_engine(work);
            (self.run_bare(work), engine)
        }
    }

    fn run_bare(&mut self, work: &Work) -> f64 {
        self.bare.start(work.width, &self.prompt).expect("a prompt");
        let begun = Instant::now();
        for _ in 0..work.tokens {
            self.bare.step().expect("a step");
        }
        f64::from(work.width * work.tokens) / begun.elapsed().as_secs_f64()
    }

    /// The step loop without its channels: plan, execute, read, commit, drain. The step that computes the
    /// prompts is not timed.
    fn run_engine(&mut self, work: &Work) -> Run {
        let limits = limits();
        let cache = kv::Kind::Paged.build(kv::Options {
            blocks: limits.kv_blocks,
            layout: kv::Layout::Unified,
            owners: 0,
            prefixes: false,
        });
        let mut drive = Drive::new(self.model, &mut self.engine, limits, cache);
        for number in 0..work.width {
            drive.submit(submission(&self.prompt, RequestId(number.into()), work));
        }
        drive.step();
        let (begun, inside) = (Instant::now(), drive.decoding());
        let mut tokens = 0;
        while let Some(sampled) = drive.step() {
            tokens += sampled;
        }
        let whole = begun.elapsed().as_secs_f64();
        let inside = drive.decoding().saturating_sub(inside).as_secs_f64();
        let tokens = u32::try_from(tokens).expect("a run samples few");
        assert_eq!(tokens, work.width * work.tokens, "both loops do the same work");
        Run { tokens_per_second: f64::from(tokens) / whole, outside: 1.0 - inside / whole }
    }
}

fn submission(prompt: &[Token], id: RequestId, work: &Work) -> Submission {
    Submission {
        id,
        submitted_at: Micros(0),
        prompt: prompt.into(),
        sampling: work.sampling.clone(),
        top_logprobs: None,
        // One token comes with the prompt.
        max_tokens: work.tokens + 1,
        tier: Tier::BestEffort,
        epoch: Some(1),
        deadline: None,
        first_token: None,
        evict: Vec::new(),
    }
}

fn limits() -> Limits {
    Limits {
        slots: 24,
        context_tokens: CONTEXT_TOKENS,
        batch_tokens: BATCH_TOKENS,
        prefill_tokens: BATCH_TOKENS,
        step: Span::from_secs(60),
        waiting: 64,
        unleased: 64,
        kv_blocks: BlockCount(24 * CONTEXT_TOKENS / 16),
        rules: sched::Rules::default(),
    }
}

fn report(name: &str, width: u32, pairs: &[(f64, Run)]) {
    let spread = |values: Vec<f64>| {
        let mut values = values;
        values.sort_by(f64::total_cmp);
        (values[values.len() / 2], values[0], values[values.len() - 1])
    };
    let bare = spread(pairs.iter().map(|(bare, _)| *bare).collect());
    let engine = spread(pairs.iter().map(|(_, run)| run.tokens_per_second).collect());
    let ratio = spread(pairs.iter().map(|(bare, run)| run.tokens_per_second / bare).collect());
    let outside = spread(pairs.iter().map(|(_, run)| run.outside * 100.0).collect());
    println!(
        "| {name} | {width} | {:.0} | {:.0} | {:.3} ({:.3} to {:.3}) | {:.2} % ({:.2} to {:.2}) |",
        bare.0, engine.0, ratio.0, ratio.1, ratio.2, outside.0, outside.1, outside.2
    );
}
