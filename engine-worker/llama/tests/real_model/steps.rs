//! Steps of the engine.

use std::sync::Arc;

use llama::{Context, ContextError, LayoutKind, Options};
use sample::{Bias, Sampling};
use sched::{Engine, EngineError, StepPlan};
use text::Tokenizer;
use units::Token;

use crate::{
    drive::{SMALL, Sequence, chat, context, run},
    model,
};

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
    assert_eq!((sequence.computed, sequence.answer.len()), (Some(256), 7));
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
    let refuse = |options: Options, option, value, (min, max)| {
        let error = model().context(&options).err();
        assert_eq!(error, Some(ContextError::Range { option, value, min, max }));
    };
    refuse(Options { slots: 0, ..SMALL }, "slots", 0, (1, 256));
    refuse(Options { slots: 257, ..SMALL }, "slots", 257, (1, 256));
    refuse(Options { context_tokens: 0, ..SMALL }, "context_tokens", 0, (1, 715_827_712));
    refuse(Options { batch_tokens: 0, ..SMALL }, "batch_tokens", 0, (1, 65_536));
    refuse(Options { batch_tokens: u32::MAX, ..SMALL }, "batch_tokens", u32::MAX, (1, 65_536));
    refuse(Options { threads: 0, ..SMALL }, "threads", 0, (1, 512));
    refuse(Options { owners: 65_537, ..SMALL }, "owners", 65_537, (0, 65_536));
    let unified = |cells| Options { layout: LayoutKind::Unified { cells }, ..SMALL };
    refuse(unified(0), "cells", 0, (1, 2_147_483_392));
    refuse(unified(u32::MAX), "cells", u32::MAX, (1, 2_147_483_392));
    refuse(unified(511), "context_tokens", 512, (1, 511));
    refuse(Options { owners: 254, ..unified(512) }, "owners", 254, (0, 253));
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
