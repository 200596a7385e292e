//! Question: would prompt lookup win? (Saxena 2023: the tokens after an earlier occurrence of the last few
//! are drafted, and one batch verifies them all.)
//!
//! It has two halves, which are measured apart: what a step costs in which each sequence verifies `k` drafted
//! tokens beside its next one; and how many drafted tokens a greedy answer of the model would have accepted.
//! As a greedy answer is what it is, lookup over it afterwards finds exactly the drafts that it would have
//! found on the way. Prints the tokens that a step samples, and the speed against steps without drafts.
//!
//! `cargo bench --workspace --bench speculation`, on a machine that does nothing else. The model is that of
//! `make model`, or CADENCE_TEST_MODEL. Under `cargo test` it runs next to nothing.

#![expect(clippy::print_stdout, reason = "a benchmark prints")]

#[path = "common/model.rs"]
mod model;

use std::{collections::BTreeMap, env, time::Instant};

use llama::{Context, LayoutKind, Model, Options, Yardstick};
use sample::Sampling;
use sched::{Command, Engine as _, Event, Limits, Scheduler, StepCost, Submission, Tier};
use text::{ChatTemplate, Message, Tokenizer as _};
use units::{BlockCount, Micros, RequestId, Span, Token};

/// Drafted tokens of a step.
const DRAFTS: [u32; 4] = [1, 2, 4, 8];
/// Tokens that have to occur again.
const NGRAMS: [usize; 2] = [2, 3];
const CONTEXT_TOKENS: u32 = 1_024;
/// Of the prompt before a verifying step.
const DEPTH: usize = 256;

const QUESTIONS: [&str; 6] = [
    "What is the capital of France, and what is it known for?",
    "Explain how a sailing boat can go against the wind.",
    "Write a short story about a lighthouse keeper and a storm.",
    "List ten things that belong into a first-aid kit.",
    "How do I make a pizza at home? Give me the steps.",
    "Write a Python function that says whether a number is prime.",
];
const PROSE: &str = include_str!("../../../docs/ARCHITECTURE.md");
/// Letters of a passage, and how far the passages are apart.
const PASSAGE: usize = 700;

/// What is run.
struct Plan {
    widths: &'static [u32],
    rounds: usize,
    prompts: usize,
    answer_tokens: u32,
}

/// A prompt and its greedy answer.
struct Told {
    prompt: Vec<Token>,
    answer: Vec<Token>,
}

/// What lookup would have done to some answers.
#[derive(Clone, Copy, Default)]
struct Lookup {
    steps: u32,
    drafting: u32,
    drafted: u32,
    accepted: u32,
}

fn main() {
    let measured = env::args().any(|arg| arg == "--bench");
    let plan = if measured {
        Plan { widths: &[1, 4, 8], rounds: 25, prompts: 6, answer_tokens: 160 }
    } else {
        Plan { widths: &[2], rounds: 1, prompts: 1, answer_tokens: 4 }
    };
    let model = Model::open(&model::path(), 0).expect("a model; run `make model`");
    let options = Options {
        slots: 8,
        context_tokens: CONTEXT_TOKENS,
        batch_tokens: 512,
        threads: model::threads(),
        owners: 0,
        layout: LayoutKind::Streams,
    };
    let costs = costs(&model, &options, &plan);
    println!(
        "\n| prompts | n-gram | drafts | accepted | tokens a step | speed at {} |",
        widths(&plan)
    );
    println!("|{}", "---|".repeat(5 + plan.widths.len()));
    for (name, told) in tell(&model, &options, &plan) {
        for ngram in NGRAMS {
            for drafts in DRAFTS {
                report(name, ngram, drafts, &told, &costs, &plan);
            }
        }
    }
}

fn widths(plan: &Plan) -> String {
    let widths: Vec<String> = plan.widths.iter().map(u32::to_string).collect();
    widths.join(" | at ")
}

/// Seconds of a step, by sequences and by drafts of each; medians of interleaved rounds.
fn costs(model: &Model, options: &Options, plan: &Plan) -> BTreeMap<(u32, u32), f64> {
    let mut bare = model.yardstick(options).expect("a context");
    let mut prompt = Vec::new();
    model.encode_plain(&"The quick brown fox jumps over the lazy dog. ".repeat(40), &mut prompt);
    prompt.truncate(DEPTH);
    let mut costs = BTreeMap::new();
    println!("| sequences | drafts | a step, ms | a draft costs, of a step without |");
    println!("|---|---|---|---|");
    for &width in plan.widths {
        bare.start(width, &prompt).expect("a prompt");
        let mut took: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for _ in 0..plan.rounds {
            for drafts in [0].into_iter().chain(DRAFTS) {
                took.entry(drafts).or_default().push(verify(&mut bare, drafts));
            }
        }
        let medians: Vec<(u32, f64)> =
            took.into_iter().map(|(drafts, took)| (drafts, median(took))).collect();
        let plain = medians[0].1;
        for (drafts, seconds) in medians {
            let each = (seconds / plain - 1.0) / f64::from(drafts.max(1));
            println!("| {width} | {drafts} | {:.1} | {each:.2} |", seconds * 1e3);
            costs.insert((width, drafts), seconds);
        }
    }
    costs
}

fn verify(bare: &mut Yardstick<'_>, drafts: u32) -> f64 {
    let begun = Instant::now();
    bare.verify(drafts).expect("a step");
    begun.elapsed().as_secs_f64()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Greedy answers to questions, and to prompts that ask for what stands in them.
fn tell(model: &Model, options: &Options, plan: &Plan) -> Vec<(&'static str, Vec<Told>)> {
    let passage =
        |at: usize| -> String { PROSE.chars().skip(at * 2 * PASSAGE).take(PASSAGE).collect() };
    let copy = |at| format!("Repeat the following text word for word:\n\n{}", passage(at));
    let summary = |at| format!("Summarise the following text:\n\n{}", passage(at));
    let kinds: [(&str, Vec<String>); 3] = [
        ("questions", QUESTIONS.map(String::from).to_vec()),
        ("summaries", (0..plan.prompts).map(summary).collect()),
        ("copies", (0..plan.prompts).map(copy).collect()),
    ];
    let mut engine = model.context(options).expect("a context");
    let mut told = |text: &String| {
        let prompt = chat(model, text);
        let answer = answer(&mut engine, model, &prompt, plan.answer_tokens);
        Told { prompt, answer }
    };
    kinds
        .into_iter()
        .map(|(name, texts)| (name, texts.iter().take(plan.prompts).map(&mut told).collect()))
        .collect()
}

fn chat(model: &Model, content: &str) -> Vec<Token> {
    let template = ChatTemplate::of(model).expect("the model has one");
    let message = Message { role: "user".into(), content: content.into() };
    let segments = template.render(&[message]).expect("it takes a user's message");
    text::encode(&segments, model)
}

fn answer(engine: &mut Context<'_>, model: &Model, prompt: &[Token], cap: u32) -> Vec<Token> {
    let limits = limits();
    let options = kv::Options {
        blocks: limits.kv_blocks,
        layout: kv::Layout::Unified,
        owners: 0,
        prefixes: false,
    };
    let mut scheduler = Scheduler::new(limits, StepCost::GUESS, kv::Kind::Paged.build(options));
    scheduler.on_command(Micros(0), Command::Submit(submission(prompt, cap)));
    let mut answer = Vec::new();
    loop {
        let plan = scheduler.plan_step(Micros(0));
        if plan.is_empty() {
            return answer;
        }
        let outcome = engine.execute(&plan).expect("a step");
        scheduler.commit_step(Micros(0), plan, Ok(outcome));
        for event in scheduler.drain_events() {
            if let Event::Token { token, .. } = event
                && !model.vocabulary().is_end(token)
            {
                answer.push(token);
            }
        }
    }
}

fn submission(prompt: &[Token], max_tokens: u32) -> Submission {
    Submission {
        id: RequestId(1),
        submitted_at: Micros(0),
        prompt: prompt.into(),
        sampling: Sampling::GREEDY,
        top_logprobs: None,
        max_tokens,
        tier: Tier::BestEffort,
        epoch: Some(1),
        deadline: None,
        first_token: None,
        evict: Vec::new(),
    }
}

fn limits() -> Limits {
    Limits {
        slots: 8,
        context_tokens: CONTEXT_TOKENS,
        batch_tokens: 512,
        prefill_tokens: 512,
        step: Span::from_secs(60),
        waiting: 1,
        unleased: 1,
        kv_blocks: BlockCount(8 * CONTEXT_TOKENS / 16),
        rules: sched::Rules::default(),
    }
}

impl Lookup {
    /// Goes through an answer as steps with lookup would have.
    fn over(&mut self, told: &Told, ngram: usize, drafts: u32) {
        let mut history = told.prompt.clone();
        let mut left = told.answer.as_slice();
        while !left.is_empty() {
            let draft = draft(&history, ngram, drafts as usize);
            // What is right is kept, and the step samples one token more.
            let right =
                draft.iter().zip(left).take_while(|(drafted, said)| drafted == said).count();
            self.steps += 1;
            self.drafting += u32::from(!draft.is_empty());
            self.drafted += u32::try_from(draft.len()).expect("few");
            self.accepted += u32::try_from(right).expect("few");
            let sampled = (right + 1).min(left.len());
            history.extend(&left[..sampled]);
            left = &left[sampled..];
        }
    }
}

/// What came after the latest earlier occurrence of the last `ngram` tokens.
fn draft(history: &[Token], ngram: usize, drafts: usize) -> Vec<Token> {
    let Some(start) = history.len().checked_sub(ngram) else { return Vec::new() };
    let last = &history[start..];
    let found = history[..history.len() - 1].windows(ngram).rposition(|window| window == last);
    found.map_or_else(Vec::new, |at| history[at + ngram..].iter().copied().take(drafts).collect())
}

fn report(
    name: &str,
    ngram: usize,
    drafts: u32,
    told: &[Told],
    costs: &BTreeMap<(u32, u32), f64>,
    plan: &Plan,
) {
    let mut lookup = Lookup::default();
    told.iter().for_each(|told| lookup.over(told, ngram, drafts));
    let tokens: usize = told.iter().map(|told| told.answer.len()).sum();
    let per_step = tokens as f64 / f64::from(lookup.steps);
    let share = f64::from(lookup.drafting) / f64::from(lookup.steps);
    let speeds: Vec<String> = plan
        .widths
        .iter()
        .map(|&width| {
            let (plain, verifying) = (costs[&(width, 0)], costs[&(width, drafts)]);
            // Of sequences that draft independently, this is what the mean step costs.
            let step = plain + share * (verifying - plain);
            format!("{:.2}", per_step * plain / step)
        })
        .collect();
    let accepted = 100.0 * f64::from(lookup.accepted) / f64::from(lookup.drafted.max(1));
    println!(
        "| {name} | {ngram} | {drafts} | {accepted:.0} % | {per_step:.2} | {} |",
        speeds.join(" | ")
    );
}
