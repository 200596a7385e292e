//! What every rung has in common: chunks, slots, order, deadlines, bounds.

use expect_test::expect;
use sched::Limits;

use crate::{
    rig::Setup,
    script::{LIMITS, PLAIN, check, check_with},
};

#[test]
fn a_long_prompt_is_chunked_beside_a_running_decode() {
    check(
        "a 10+5; run 1; b 70+2; run",
        &expect![[r#"
            1. a:0..10 (20 ms)
            2. a+1 b:0..30 (50 ms)
            3. a+1 b:30..60 (50 ms)
            4. a+1 b:60..70 (30 ms)
            5. a+1 b+1 (30 ms)
                a ends: Length after 5
                b ends: Length after 2
        "#]],
    );
}

#[test]
fn the_third_request_waits_for_a_slot() {
    check(
        "a 8+2; b 8+3; c 8+2; run",
        &expect![[r#"
            1. a:0..8 b:0..8 (26 ms)
            2. a+1 b+1 (30 ms)
                a ends: Length after 2
            3. b+1 c:0..8 (28 ms)
                b ends: Length after 3
            4. c+1 (20 ms)
                c ends: Length after 2
        "#]],
    );
}

#[test]
fn first_tokens_are_told_first() {
    check(
        "a 8+2; run 1; b 8+1; run",
        &expect![[r#"
            1. a:0..8 (18 ms)
            2. a+1 b:0..8 (28 ms)
                b ends: Length after 1
                a ends: Length after 2
        "#]],
    );
}

#[test]
fn promises_go_first_then_the_earliest_deadline() {
    check(
        "a 8+2; run 1; b 8+2; c 8+2 @900; d 8+2 ! @999; run",
        &expect![[r#"
            1. a:0..8 (18 ms)
            2. a+1 d:0..8 (28 ms)
                a ends: Length after 2
            3. d+1 c:0..8 (28 ms)
                d ends: Length after 2
            4. c+1 b:0..8 (28 ms)
                c ends: Length after 2
            5. b+1 (20 ms)
                b ends: Length after 2
        "#]],
    );
}

#[test]
fn a_promise_displaces_best_effort_which_is_computed_again() {
    check(
        "a 20+5; b 8+9; run 3; c 8+2 ! evicts a; run",
        &expect![[r#"
            1. a:0..20 b:0..8 (38 ms)
            2-3. a+1 b+1 (30 ms)
            a is displaced, and rests 33 ms
            4. b+1 c:0..8 (28 ms)
            5. c+1 b+1 (30 ms)
                c ends: Length after 2
            6. b+1 a:0..23 (43 ms)
            7. a+1 b+1 (30 ms)
                a ends: Length after 5
            8-9. b+1 (20 ms)
                b ends: Length after 9
        "#]],
    );
}

#[test]
fn cancellation_works_in_every_phase() {
    check(
        "a 60+5; b 8+9; c 8+9; run 1; cancel a; run 1; cancel b; cancel c; cancel c; run",
        &expect![[r#"
            1. a:0..40 (50 ms)
            a ends: Cancelled after 0
            2. b:0..8 c:0..8 (26 ms)
            b ends: Cancelled after 1
            c ends: Cancelled after 1
        "#]],
    );
}

#[test]
fn who_waits_past_the_deadline_ends() {
    check(
        "a 8+4; b 8+4; run 1; c 8+9 @60; run",
        &expect![[r#"
            1. a:0..8 b:0..8 (26 ms)
            2-3. a+1 b+1 (30 ms)
            c ends: Deadline after 0
            4. a+1 b+1 (30 ms)
                a ends: Length after 4
                b ends: Length after 4
        "#]],
    );
}

#[test]
fn queues_are_bounded() {
    let limits = Limits { waiting: 2, unleased: 1, ..LIMITS };
    check_with(
        &Setup { limits, ..PLAIN },
        "a 8+9 unleased; b 8+9 unleased; c 8+9; d 8+9; run 1; a 1+1; e 300+300; drain; f 8+9; stop",
        &expect![[r#"
            b refused: 1 requests run without a lease already, the limit is 1
            d refused: 2 requests wait already, the limit is 2
            1. a:0..8 c:0..8 (26 ms)
            a refused: the request is already running
            e refused: the request needs 38 KV blocks, the engine has 32
            f refused: the engine is draining
            a ends: Shutdown after 1
            c ends: Shutdown after 1
        "#]],
    );
}
