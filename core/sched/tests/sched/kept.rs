//! Prefixes are kept, found, evicted and forgotten.

use expect_test::expect;
use kv::Kind;
use sched::{Command, Limits};
use units::{BlockCount, RequestId};

use crate::{
    rig::{Rig, STREAMS, Setup, request},
    script::{KEEPING, LIMITS, check_with, log},
    trace::text,
};

fn small(blocks: u32) -> Setup {
    Setup { limits: Limits { kv_blocks: BlockCount(blocks), ..LIMITS }, ..KEEPING }
}

#[test]
fn what_is_kept_is_not_computed_again() {
    check_with(
        &KEEPING,
        "a x32y8+2; run; b x32z8+2; run",
        &expect![[r#"
        1. a:0..40 (50 ms)
        2. [keep 0=a:32] a+1 (20 ms)
            a ends: Length after 2
        3. b<0:32..40 (18 ms)
        4. b+1 (20 ms)
            b ends: Length after 2, 32 cached
    "#]],
    );
}

#[test]
fn the_next_turn_finds_the_whole_conversation() {
    for layout in [KEEPING.layout, STREAMS] {
        let mut rig = Rig::new(&Setup { layout, ..KEEPING });
        let prompt: Vec<_> = text(1, 20).collect();
        rig.command(Command::Submit(request(1, rig.now, prompt.clone(), 30)));
        rig.run(99);
        // The last token of an answer is not computed, so 49 tokens are known: three blocks.
        let next = prompt.into_iter().chain(rig.said[&RequestId(1)].clone()).chain(text(2, 9));
        rig.command(Command::Submit(request(2, rig.now, next.collect(), 30)));
        rig.run(99);
        assert_eq!(rig.ended[&RequestId(2)].1.cached_tokens, 48);
    }
}

#[test]
fn all_but_the_last_token_is_found_of_a_prompt_of_whole_blocks() {
    check_with(
        &KEEPING,
        "a x32+2; run; b x32+2; run",
        &expect![[r#"
        1. a:0..32 (42 ms)
        2. [keep 0=a:32] a+1 (20 ms)
            a ends: Length after 2
        3. b<0:31..32 (11 ms)
        4. b+1 (20 ms)
            b ends: Length after 2, 31 cached
    "#]],
    );
    check_with(
        &Setup { layout: STREAMS, ..KEEPING },
        "a x32+2; run; b x32+2; run",
        &expect![[r#"
            1. a:0..32 (42 ms)
            2. [keep 0=a:32] a+1 (20 ms)
                a ends: Length after 2
            3. b<0:31..32 (11 ms)
            4. b+1 (20 ms)
                b ends: Length after 2, 31 cached
        "#]],
    );
}

#[test]
fn a_prompt_that_was_seen_is_the_last_to_go() {
    // Three prompts of two blocks are kept, then somebody needs room.
    let script = "a x32+1; run; b y32+1; run; TOUCH c z80+1; run; d x32+1; run; e y32+1; run";
    check_with(
        &small(8),
        &script.replace("TOUCH", ""),
        &expect![[r#"
        1. a:0..32 (42 ms)
            a ends: Length after 1
        2. [keep 0=a:32] b:0..32 (42 ms)
            b ends: Length after 1
        3. [keep 1=b:32, drop 0] c:0..40 (50 ms)
        4. c:40..80 (50 ms)
            c ends: Length after 1
        5. [keep 0=c:80, drop 1] d:0..32 (42 ms)
            d ends: Length after 1
        6. [keep 1=d:32, drop 0] e:0..32 (42 ms)
            e ends: Length after 1
    "#]],
    );
    check_with(
        &small(8),
        &script.replace("TOUCH", "touch x33;"),
        &expect![[r#"
        1. a:0..32 (42 ms)
            a ends: Length after 1
        2. [keep 0=a:32] b:0..32 (42 ms)
            b ends: Length after 1
        3. c:0..40 (50 ms)
        4. c:40..80 (50 ms)
            c ends: Length after 1
        5. d<0:31..32 (11 ms)
            d ends: Length after 1, 31 cached
        6. e:0..32 (42 ms)
            e ends: Length after 1
    "#]],
    );
}

#[test]
fn what_fits_only_without_a_copy_joins_without() {
    // The whole pool is b's: the block that it would write to cannot be kept beside its copy.
    check_with(
        &small(3),
        "a x32+1; run; b x32+16; run",
        &expect![[r#"
        1. a:0..32 (42 ms)
            a ends: Length after 1
        2. [keep 0=a:16] b<0:16..32 (26 ms)
        3. [drop 0, keep 0=b:32] b+1 (20 ms)
        4-17. b+1 (20 ms)
            b ends: Length after 16, 16 cached
    "#]],
    );
}

#[test]
fn a_refused_plan_makes_everything_forgotten() {
    check_with(
        &KEEPING,
        "a x32y8+2; run; b x32z8+2; refuse; c x32z8+2; run; d x32z8+2; run; counters",
        &expect![[r#"
            1. a:0..40 (50 ms)
            2. [keep 0=a:32] a+1 (20 ms)
                a ends: Length after 2
            3. b<0:32..40 (18 ms)
                b ends: Failed("the plan does not fit the backend: as ordered") after 0, 32 cached
            4. [drop 0] c:0..40 (50 ms)
            5. [keep 0=c:32] c+1 (20 ms)
                c ends: Length after 2
            6. d<0:32..40 (18 ms)
            7. d+1 (20 ms)
                d ends: Length after 2, 32 cached
            Counters { preempted_by_pressure: 0, preempted_by_promise: 0, evicted_by_order: 0, aborted_promised: 0, aborted_best_effort: 0, demoted: 0, forgotten: 1 }
        "#]],
    );
}

#[test]
fn a_lost_prefix_makes_everything_forgotten() {
    check_with(
        &KEEPING,
        "a x32y8+2; run; b v32z8+3; run 1; lose; run; c x32z8+2; run; d v32+2; run; counters",
        &expect![[r#"
            1. a:0..40 (50 ms)
            2. [keep 0=a:32] a+1 (20 ms)
                a ends: Length after 2
            3. b:0..40 (50 ms)
            4. [keep 1=b:32] b+1 (20 ms)
            5. [drop 0] b+1 (20 ms)
                b ends: Length after 3
            6. c:0..40 (50 ms)
            7. [keep 0=c:32] c+1 (20 ms)
                c ends: Length after 2
            8. d:0..32 (42 ms)
            9. [keep 1=d:32] d+1 (20 ms)
                d ends: Length after 2
            Counters { preempted_by_pressure: 0, preempted_by_promise: 0, evicted_by_order: 0, aborted_promised: 0, aborted_best_effort: 0, demoted: 0, forgotten: 1 }
        "#]],
    );
}

#[test]
fn a_failed_step_forgets_nothing() {
    check_with(
        &KEEPING,
        "a x32y8+2; run; b x32z8+2; fail; c x32z8+2; run",
        &expect![[r#"
        1. a:0..40 (50 ms)
        2. [keep 0=a:32] a+1 (20 ms)
            a ends: Length after 2
        3. b<0:32..40 (18 ms)
            b ends: Failed("the backend failed: as ordered") after 0, 32 cached
        4. c<0:32..40 (18 ms)
        5. c+1 (20 ms)
            c ends: Length after 2, 32 cached
    "#]],
    );
}

#[test]
fn who_was_preempted_finds_its_own_prompt() {
    check_with(
        &KEEPING,
        "a x32y8+9; run 3; b 8+2 !; c 8+2 ! evicts a; run",
        &expect![[r#"
        1. a:0..40 (50 ms)
        2. [keep 0=a:32] a+1 (20 ms)
        3. a+1 (20 ms)
        a is displaced, and rests 53 ms
        4. b:0..8 c:0..8 (26 ms)
        5. b+1 c+1 (30 ms)
            b ends: Length after 2
            c ends: Length after 2
        6. a<0:32..43 (21 ms)
        7-11. a+1 (20 ms)
            a ends: Length after 9
    "#]],
    );
}

/// The crash that the first engine of this kind had: what a request had found was evicted to make room for
/// the same request. Here x is the least recent, and c needs five blocks where four are kept.
#[test]
fn what_was_found_is_not_evicted_by_who_found_it() {
    let script = "a x32+1; run; b y32+1; run; c x32z20+20; run";
    check_with(
        &small(6),
        script,
        &expect![[r#"
        1. a:0..32 (42 ms)
            a ends: Length after 1
        2. [keep 0=a:32] b:0..32 (42 ms)
            b ends: Length after 1
        3. c<0:32..52 (30 ms)
        4. [drop 0, keep 0=c:48] c+1 (20 ms)
        5-22. c+1 (20 ms)
            c ends: Length after 20, 32 cached
    "#]],
    );
    check_with(
        &Setup { layout: STREAMS, ..small(6) },
        script,
        &expect![[r#"
        1. a:0..32 (42 ms)
            a ends: Length after 1
        2. [keep 0=a:32] b:0..32 (42 ms)
            b ends: Length after 1
        3. [keep 1=b:32] c<0:32..52 (30 ms)
        4. [drop 0, keep 0=c:48] c+1 (20 ms)
        5-22. c+1 (20 ms)
            c ends: Length after 20, 32 cached
    "#]],
    );
}

#[test]
fn the_reference_core_does_the_same() {
    let script =
        "a x32y8+20; b x32z60+9; c x20+9 !; run 4; d y32z40+9; touch x32y9; refuse; e y32+8
         run 3; f x32y8z70+30 !; cancel e; run 2; lose; run";
    for layout in [KEEPING.layout, STREAMS] {
        let of = |kind| log(&Setup { kind, layout, ..small(12) }, script);
        assert_eq!(of(Kind::Naive), of(Kind::Paged));
    }
}
