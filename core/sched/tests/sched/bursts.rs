//! Prompts that begin alike arrive together.

use expect_test::expect;
use kv::Kind;
use sched::{Command, Event, Limits};
use units::{BlockCount, RequestId, Span, Token};

use crate::{
    rig::{Luck, Rig, STREAMS, Setup, request},
    script::{KEEPING, LIMITS, check_with},
    trace::text,
};

fn wide() -> Setup {
    let limits = Limits {
        slots: 16,
        context_tokens: 1_024,
        batch_tokens: 256,
        prefill_tokens: 128,
        step: Span::from_secs(1),
        waiting: 32,
        kv_blocks: BlockCount(512),
        ..LIMITS
    };
    Setup { limits, owners: 64, ..KEEPING }
}

/// Prompt tokens computed until all have ended.
fn computed(setup: &Setup, prompts: impl IntoIterator<Item = Vec<Token>>) -> usize {
    let mut rig = Rig::new(setup);
    for (id, prompt) in prompts.into_iter().enumerate() {
        rig.command(Command::Submit(request(id as u128, rig.now, prompt, 4)));
    }
    let mut tokens = 0;
    while let Some((plan, _)) = rig.step(Luck::Good) {
        tokens += plan.shape.prefill as usize;
    }
    assert!(rig.open.is_empty());
    tokens
}

#[test]
fn sixteen_equal_prompts_are_computed_once() {
    let streams = Setup { layout: STREAMS_LARGE, ..wide() };
    for setup in [wide(), streams, Setup { kind: Kind::Naive, ..wide() }] {
        let equal = |tokens: u32| vec![text(7, tokens).collect(); 16];
        assert_eq!(computed(&setup, equal(512)), 512 + 15, "whole blocks: all but the last token");
        assert_eq!(computed(&setup, equal(500)), 500 + 15 * 4, "the rest of the last block each");
    }
}

const STREAMS_LARGE: kv::Layout = kv::Layout::Streams { token_bytes: 100, bytes_max: 100_000_000 };

#[test]
fn without_a_cache_sixteen_equal_prompts_do_not_wait_for_each_other() {
    let plain = Setup { prefixes: false, ..wide() };
    let mut rig = Rig::new(&plain);
    for id in 0..16 {
        rig.command(Command::Submit(request(id, rig.now, text(7, 8).collect(), 4)));
    }
    let (plan, _) = rig.step(Luck::Good).expect("work");
    assert_eq!(plan.joins.len(), 16);
}

#[test]
fn who_could_use_a_prompt_under_way_waits_for_it_and_lets_others_pass() {
    check_with(
        &KEEPING,
        "a x60y4+2; b x60z4+2; c 8+2; run",
        &expect![[r#"
            1. a:0..40 (50 ms)
            2. a:40..64 (34 ms)
            3. [keep 0=a:64] a+1 b<0:48..64 (36 ms)
                a ends: Length after 2
            4. [keep 1=b:64] b+1 c:0..8 (28 ms)
                b ends: Length after 2, 48 cached
            5. c+1 (20 ms)
                c ends: Length after 2
        "#]],
    );
}

#[test]
fn when_the_first_is_cancelled_the_next_computes_for_all() {
    let mut rig = Rig::new(&wide());
    for id in 0..16 {
        rig.command(Command::Submit(request(id, rig.now, text(7, 512).collect(), 4)));
    }
    let (plan, _) = rig.step(Luck::Good).expect("work");
    assert_eq!((plan.joins.len(), plan.shape.prefill), (1, 128));
    rig.command(Command::Cancel(RequestId(0)));
    let mut tokens = 0;
    while let Some((plan, events)) = rig.step(Luck::Good) {
        tokens += plan.shape.prefill;
        let joined = events.iter().filter(|event| matches!(event, Event::Started { .. })).count();
        assert!(tokens >= 512 || joined <= 1);
    }
    assert_eq!(tokens, 512 + 14);
    assert_eq!(rig.ended.len(), 16);
}

#[test]
fn a_promise_does_not_wait_for_best_effort() {
    check_with(
        &KEEPING,
        "a x60y4+2; run 1; b x60z4+2 !; run",
        &expect![[r#"
            1. a:0..40 (50 ms)
            2. b:0..40 (50 ms)
            3. b:40..64 a:40..56 (50 ms)
            4. [keep 0=b:64] b+1 a:56..64 (28 ms)
                b ends: Length after 2
            5. a+1 (20 ms)
                a ends: Length after 2
        "#]],
    );
}

#[test]
fn streams_share_as_well() {
    check_with(
        &Setup { layout: STREAMS, ..KEEPING },
        "a x40y4+2; b x40z4+2; run",
        &expect![[r#"
            1. a:0..40 (50 ms)
            2. a:40..44 (14 ms)
            3. [keep 0=a:32] a+1 b<0:32..44 (32 ms)
                a ends: Length after 2
            4. b+1 (20 ms)
                b ends: Length after 2, 32 cached
        "#]],
    );
}
