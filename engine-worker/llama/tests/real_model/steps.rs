//! Steps of the engine.

use std::sync::Arc;

use llama::{Context, ContextError, Options};
use sample::{Bias, Logprobs, Sampling};
use sched::{Decode, Engine, EngineError, Join, Prefill, StepOutcome, StepPlan};
use text::{ChatTemplate, Message, Tokenizer, Transcript, encode};
use units::{RequestId, Slot, Token};

use crate::model;

/// One thread: tests run beside each other, and two would wait for each other at every layer.
const SMALL: Options = Options { slots: 3, context_tokens: 512, batch_tokens: 256, threads: 1 };

fn context(options: &Options) -> Context<'static> {
    model().context(options).expect("fits into memory")
}

fn chat(content: &str) -> Arc<[Token]> {
    let template = ChatTemplate::of(model()).expect("compiles");
    let user = Message { role: "user".to_owned(), content: content.to_owned() };
    encode(&template.render(&[user]).expect("takes a user's message"), model()).into()
}

/// A sequence that is driven by hand.
struct Sequence {
    slot: Slot,
    prompt: Arc<[Token]>,
    sampling: Sampling,
    /// Tokens at the end of `prompt` that were sampled before an eviction.
    sampled: u32,
    top_logprobs: Option<u32>,
    told: Vec<Logprobs>,
    /// Tokens whose KV is in the slot.
    computed: usize,
    answer: Vec<Token>,
    ended: bool,
}

impl Sequence {
    fn new(slot: u32, prompt: Arc<[Token]>) -> Self {
        let (slot, answer) = (Slot(slot), Vec::new());
        let sampling = Sampling::GREEDY;
        let (sampled, top_logprobs, told, computed, ended) = (0, None, Vec::new(), 0, false);
        Self { slot, prompt, sampling, sampled, top_logprobs, told, computed, answer, ended }
    }

    fn id(&self) -> RequestId {
        RequestId(u128::from(self.slot.0) + 100)
    }

    /// Adds what it does next to the plan: a piece of the prompt, or a token.
    fn plan(&mut self, plan: &mut StepPlan, piece: usize) {
        let (slot, id) = (self.slot, self.id());
        if self.computed == 0 {
            plan.joins.push(Join {
                slot,
                id,
                sampling: self.sampling.clone(),
                history: self.prompt.clone(),
                sampled: self.sampled,
                top_logprobs: self.top_logprobs,
                reuse: None,
            });
        }
        if let (Some(&token), false) = (self.answer.last(), self.ended) {
            let position = u32::try_from(self.computed).expect("a test is short");
            plan.decodes.push(Decode { slot, id, token, position });
            self.computed += 1;
        } else if self.computed < self.prompt.len() {
            let end = self.prompt.len().min(self.computed + piece);
            let range = self.computed..end;
            let last = end == self.prompt.len();
            plan.prefills.push(Prefill { slot, id, prompt: self.prompt.clone(), range, last });
            self.computed = end;
        }
    }

    fn take(&mut self, outcome: &StepOutcome) {
        let id = self.id();
        for sampled in outcome.sampled.iter().filter(|sampled| sampled.id == id) {
            self.answer.push(sampled.token);
            self.told.extend(sampled.logprobs.clone());
            self.ended = sampled.stop;
        }
    }

    fn text(&self) -> String {
        let mut transcript = Transcript::new(Vec::new());
        let push = |&token: &Token| transcript.push(model().vocabulary(), token).text;
        let text: String = self.answer.iter().map(push).collect();
        text + &transcript.finish()
    }
}

/// Runs the sequences side by side until each has ended or has `tokens` tokens.
fn run(context: &mut Context<'_>, sequences: &mut [Sequence], piece: usize, tokens: usize) {
    loop {
        let mut plan = StepPlan::default();
        for sequence in sequences.iter_mut().filter(|one| !one.ended && one.answer.len() < tokens) {
            sequence.plan(&mut plan, piece);
        }
        if plan.is_empty() {
            return;
        }
        let outcome = context.execute(&plan).expect("the plan fits");
        sequences.iter_mut().for_each(|sequence| sequence.take(&outcome));
    }
}

fn answer(context: &mut Context<'_>, prompt: &Arc<[Token]>, piece: usize) -> String {
    let mut sequences = [Sequence::new(0, prompt.clone())];
    run(context, &mut sequences, piece, 24);
    sequences[0].text()
}

#[test]
fn a_greedy_answer_makes_sense_and_is_the_same_again() {
    let prompt = chat("What color is the sky?");
    let mut first = context(&SMALL);
    let text = answer(&mut first, &prompt, 256);
    assert!(text.contains("blue"), "{text}");
    assert!(!text.contains("<|"), "{text}");
    assert_eq!(answer(&mut first, &prompt, 256), text, "in a slot that was used before");
    assert_eq!(answer(&mut context(&SMALL), &prompt, 256), text, "in a new context");
    assert_eq!(answer(&mut first, &prompt, 7), text, "with the prompt in pieces");
}

#[test]
fn sequences_side_by_side_do_not_mix() {
    let ask = |word: &str| chat(&format!("The password is {word}. What is the password?"));
    let prompts = [ask("pelican"), ask("volcano")];
    let mut context = context(&SMALL);
    let mut texts = |slots: [u32; 2]| {
        let mut sequences = [0, 1].map(|at| Sequence::new(slots[at], prompts[at].clone()));
        run(&mut context, &mut sequences, 16, 24);
        sequences.map(|sequence| sequence.text())
    };
    let [first, second] = texts([0, 1]);
    assert!(first.contains("pelican") && !first.contains("volcano"), "{first}");
    assert!(second.contains("volcano") && !second.contains("pelican"), "{second}");
    assert_eq!(texts([2, 0]), [first, second], "in other slots");
}

#[test]
fn a_seed_is_a_text_and_another_seed_another() {
    let prompt = chat("Tell me a story.");
    let mut context = context(&SMALL);
    let mut text = |seed| {
        let mut sequences = [Sequence::new(0, prompt.clone())];
        sequences[0].sampling = Sampling { temperature: 1.0, top_k: 40, seed, ..Sampling::GREEDY };
        run(&mut context, &mut sequences, 256, 16);
        sequences[0].text()
    };
    let first = text(42);
    assert_eq!(text(42), first);
    assert_ne!(text(43), first);
}

#[test]
fn a_slot_can_be_filled_to_its_last_token_and_no_further() {
    let mut context = context(&Options { slots: 2, context_tokens: 200, ..SMALL });
    assert_eq!((context.context_tokens(), context.batch_tokens()), (256, 256));
    let mut tokens = Vec::new();
    model().encode_plain(&"one two ".repeat(200), &mut tokens);
    tokens.truncate(250);
    let mut sequences = [Sequence::new(1, tokens.into())];
    run(&mut context, &mut sequences, 128, 7);
    let [mut sequence] = sequences;
    assert_eq!((sequence.computed, sequence.answer.len()), (256, 7));
    let mut beyond = StepPlan::default();
    sequence.plan(&mut beyond, 1);
    let full = "257 tokens in a slot of 256".to_owned();
    assert_eq!(context.execute(&beyond), Err(EngineError::Unfit(full)));
}

#[test]
fn a_plan_that_does_not_fit_leaves_the_others_running() {
    let mut context = context(&SMALL);
    let prompt = chat("What color is the sky?");
    let expected = answer(&mut context, &prompt, 256);
    let mut sequences = [Sequence::new(1, prompt)];
    run(&mut context, &mut sequences, 256, 3);
    let mut wrong = StepPlan::default();
    Sequence::new(0, vec![Token(49152)].into()).plan(&mut wrong, 1);
    assert!(matches!(context.execute(&wrong), Err(EngineError::Unfit(_))));
    run(&mut context, &mut sequences, 256, 24);
    assert_eq!(sequences[0].text(), expected);
}

#[test]
fn options_out_of_range_are_refused() {
    let refuse = |options: Options, option, value, max| {
        let error = model().context(&options).err();
        assert_eq!(error, Some(ContextError::Range { option, value, max }));
    };
    refuse(Options { slots: 0, ..SMALL }, "slots", 0, 256);
    refuse(Options { slots: 257, ..SMALL }, "slots", 257, 256);
    refuse(Options { context_tokens: 0, ..SMALL }, "context_tokens", 0, 715_827_712);
    refuse(Options { batch_tokens: 0, ..SMALL }, "batch_tokens", 0, 65_536);
    refuse(Options { batch_tokens: u32::MAX, ..SMALL }, "batch_tokens", u32::MAX, 65_536);
    refuse(Options { threads: 0, ..SMALL }, "threads", 0, 512);
}

/// Everything that an answer depends on at once.
fn busy(seed: u64) -> Sampling {
    let logit_bias =
        vec![Bias { token: Token(28), bias: -100.0 }, Bias { token: Token(30), bias: 2.0 }];
    Sampling {
        temperature: 1.1,
        top_k: 60,
        top_p: 0.95,
        seed,
        presence_penalty: 0.3,
        frequency_penalty: 0.4,
        repeat_penalty: 1.2,
        logit_bias,
        ..Sampling::GREEDY
    }
}

#[test]
fn an_evicted_answer_goes_on_with_the_same_draws() {
    let prompt = chat("Tell me a story.");
    let mut context = context(&SMALL);
    let mut sequences = [Sequence::new(0, prompt.clone())];
    sequences[0].sampling = busy(5);
    run(&mut context, &mut sequences, 256, 16);
    let whole = &sequences[0].answer;
    for kept in [1, 7, 15] {
        let history: Vec<Token> = prompt.iter().chain(&whole[..kept]).copied().collect();
        let mut resumed = [Sequence::new(1, history.into())];
        resumed[0].sampling = busy(5);
        resumed[0].sampled = u32::try_from(kept).unwrap();
        run(&mut context, &mut resumed, 256, 16 - kept);
        assert_eq!(resumed[0].answer, whole[kept..], "after {kept}");
    }
}

#[test]
fn log_probabilities_are_the_models_own() {
    let mut context = context(&SMALL);
    let mut told = |sampling: Sampling| {
        let mut sequences = [Sequence::new(0, chat("What color is the sky?"))];
        sequences[0].sampling = sampling;
        sequences[0].top_logprobs = Some(20);
        run(&mut context, &mut sequences, 256, 8);
        let [sequence] = sequences;
        sequence.answer.into_iter().zip(sequence.told).collect::<Vec<_>>()
    };
    let greedy = told(Sampling::GREEDY);
    assert_eq!(greedy.len(), 8);
    for (token, logprobs) in &greedy {
        assert_eq!((logprobs.top[0].token, logprobs.top.len()), (*token, 20));
        assert_eq!(logprobs.top[0].logprob, logprobs.chosen);
        assert!(logprobs.top.is_sorted_by(|a, b| a.logprob >= b.logprob));
        let mass: f32 = logprobs.top.iter().map(|it| it.logprob.exp()).sum();
        assert!((0.1..=1.0001).contains(&mass) && logprobs.chosen <= 0.0, "{mass}");
    }
    // What is forbidden is as likely as before: it is only not taken.
    let forbidden = greedy[0].0;
    let logit_bias = vec![Bias { token: forbidden, bias: -100.0 }];
    let biased = told(Sampling { logit_bias, temperature: 2.0, ..Sampling::GREEDY });
    assert!(biased[0].0 != forbidden && biased.iter().all(|(token, _)| *token != forbidden));
    assert_eq!(biased[0].1.top, greedy[0].1.top);
}
