//! The rungs and their knobs.

use expect_test::expect;
use sched::{Discipline, Lateness, Limits, Order, Reservation};
use units::{BlockCount, Span};

use crate::{
    rig::Setup,
    script::{LIMITS, PLAIN, check_with, under},
};

const STATIC: Discipline = Discipline::Static { batch: 3, wait: Span::from_millis(30) };

/// Room for three, and blocks for 12.
fn three(blocks: u32) -> Setup {
    let limits = Limits {
        slots: 3,
        kv_blocks: BlockCount(blocks),
        step: Span::from_millis(100),
        waiting: 8,
        ..LIMITS
    };
    Setup { limits, ..PLAIN }
}

fn fifo() -> Setup {
    under(&PLAIN, |rules| rules.discipline = Discipline::Fifo)
}

fn batches() -> Setup {
    under(&three(32), |rules| rules.discipline = STATIC)
}

fn growing(blocks: u32) -> Setup {
    under(&three(blocks), |rules| rules.reservation = Reservation::Grow)
}

#[test]
fn fifo_runs_one_at_a_time_in_the_order_of_arrival() {
    check_with(
        &fifo(),
        "a 8+2; b 8+2 @900; c 8+2 ! @500; run",
        &expect![[r#"
        1. a:0..8 (18 ms)
        2. a+1 (20 ms)
            a ends: Length after 2
        3. b:0..8 (18 ms)
        4. b+1 (20 ms)
            b ends: Length after 2
        5. c:0..8 (18 ms)
        6. c+1 (20 ms)
            c ends: Length after 2
    "#]],
    );
}

#[test]
fn a_late_arrival_cannot_join_a_static_batch() {
    check_with(
        &batches(),
        "a 8+4; b 8+2; c 8+2; run 1; d 8+2; run",
        &expect![[r#"
        1. a:0..8 b:0..8 c:0..8 (34 ms)
        2. a+1 b+1 c+1 (40 ms)
            b ends: Length after 2
            c ends: Length after 2
        3-4. a+1 (20 ms)
            a ends: Length after 4
        5. d:0..8 (18 ms)
        6. d+1 (20 ms)
            d ends: Length after 2
    "#]],
    );
}

#[test]
fn a_late_arrival_joins_the_batch_that_runs_continuously() {
    check_with(
        &three(32),
        "a 8+4; b 8+2; run 1; d 8+2; run",
        &expect![[r#"
        1. a:0..8 b:0..8 (26 ms)
        2. a+1 b+1 d:0..8 (38 ms)
            b ends: Length after 2
        3. a+1 d+1 (30 ms)
            d ends: Length after 2
        4. a+1 (20 ms)
            a ends: Length after 4
    "#]],
    );
}

#[test]
fn a_static_batch_waits_to_fill() {
    check_with(
        &batches(),
        "a 8+2; run 1; wait 10; b 8+2; run 1; c 8+2; d 8+2; e 8+2; run",
        &expect![[r#"
            1. a:0..8 b:0..8 c:0..8 (34 ms)
            2. a+1 b+1 c+1 (40 ms)
                a ends: Length after 2
                b ends: Length after 2
                c ends: Length after 2
            3. d:0..8 e:0..8 (26 ms)
            4. d+1 e+1 (30 ms)
                d ends: Length after 2
                e ends: Length after 2
        "#]],
    );
}

#[test]
fn members_of_a_static_batch_whose_prompts_do_not_fit_into_its_first_step_follow() {
    check_with(
        &batches(),
        "a 60+3; b 60+3; c 60+3; d 8+2; run",
        &expect![[r#"
        1. a:0..60 (70 ms)
        2. a+1 b:0..60 (80 ms)
        3. a+1 b+1 c:0..60 (90 ms)
            a ends: Length after 3
        4. b+1 c+1 (30 ms)
            b ends: Length after 3
        5. c+1 (20 ms)
            c ends: Length after 3
        6. d:0..8 (18 ms)
        7. d+1 (20 ms)
            d ends: Length after 2
    "#]],
    );
}

#[test]
fn a_batch_of_those_who_left_does_not_hold_up_the_next() {
    check_with(
        &batches(),
        "a 60+3; b 60+3; c 60+3; d 8+2; run 1; cancel a; cancel b; cancel c; run",
        &expect![[r#"
            1. a:0..60 (70 ms)
            a ends: Cancelled after 1
            b ends: Cancelled after 0
            c ends: Cancelled after 0
            2. d:0..8 (18 ms)
            3. d+1 (20 ms)
                d ends: Length after 2
        "#]],
    );
}

#[test]
fn decodes_go_first_or_prompts_do_but_the_first_always_moves() {
    let script = "a 8+6; b 8+6; run 1; c 200+2; run 4";
    check_with(
        &three(32),
        script,
        &expect![[r#"
        1. a:0..8 b:0..8 (26 ms)
        2. a+1 b+1 c:0..62 (92 ms)
        3. a+1 b+1 c:62..124 (92 ms)
        4. a+1 b+1 c:124..186 (92 ms)
        5. a+1 b+1 c:186..200 (44 ms)
    "#]],
    );
    let prompts_first = under(&three(32), |rules| rules.order = Order::PrefillFirst);
    check_with(
        &prompts_first,
        script,
        &expect![[r#"
        1. a:0..8 b:0..8 (26 ms)
        2. a+1 c:0..63 (83 ms)
        3. a+1 c:63..126 (83 ms)
        4. a+1 c:126..189 (83 ms)
        5. a+1 b+1 c:189..200 (41 ms)
    "#]],
    );
}

#[test]
fn with_one_cap_for_all_everybody_takes_room_for_it() {
    // 8 + 120 tokens are 8 blocks, whatever the request asks for.
    let setup = under(&three(16), |rules| rules.output_cap = Some(120));
    check_with(
        &setup,
        "a 8+2; b 8+2; c 8+2; d 8+200; run",
        &expect![[r#"
        1. a:0..8 b:0..8 (26 ms)
        2. a+1 b+1 (30 ms)
            a ends: Length after 2
            b ends: Length after 2
        3. c:0..8 (18 ms)
        4. c+1 (20 ms)
            c ends: Length after 2
        5. d:0..8 (18 ms)
        6-204. d+1 (20 ms)
            d ends: Length after 200
    "#]],
    );
}

#[test]
fn a_full_reservation_waits_where_a_growing_one_joins() {
    let script = "a 8+40; b 8+40; run 2";
    check_with(
        &three(4),
        script,
        &expect![[r#"
        1. a:0..8 (18 ms)
        2. a+1 (20 ms)
    "#]],
    );
    check_with(
        &growing(4),
        script,
        &expect![[r#"
        1. a:0..8 b:0..8 (26 ms)
        2. a+1 b+1 (30 ms)
    "#]],
    );
}

#[test]
fn under_pressure_the_last_goes_and_comes_back_with_all_that_it_needs() {
    check_with(
        &growing(6),
        "a 14+40; b 14+40; run; counters",
        &expect![[r#"
            1. a:0..14 b:0..14 (38 ms)
            2-35. a+1 b+1 (30 ms)
            b is displaced, and rests 59 ms
            36-40. a+1 (20 ms)
                a ends: Length after 40
            41. b:0..49 (59 ms)
            42-45. b+1 (20 ms)
                b ends: Length after 40
            Counters { preempted_by_pressure: 1, preempted_by_promise: 0, evicted_by_order: 0, aborted_promised: 0, aborted_best_effort: 0, demoted: 0, forgotten: 0 }
        "#]],
    );
}

#[test]
fn slots_and_blocks_run_out_at_once() {
    check_with(
        &growing(7),
        "a 14+40; b 14+30; c 14+20; d 14+10; run; counters",
        &expect![[r#"
            1. a:0..14 b:0..14 c:0..14 (52 ms)
            2-19. a+1 b+1 c+1 (40 ms)
            c is displaced, and rests 43 ms
            20-30. a+1 b+1 (30 ms)
                b ends: Length after 30
            31. a+1 c:0..33 (53 ms)
                c ends: Length after 20
            32. a+1 d:0..14 (34 ms)
            33-40. a+1 d+1 (30 ms)
                a ends: Length after 40
            41. d+1 (20 ms)
                d ends: Length after 10
            Counters { preempted_by_pressure: 1, preempted_by_promise: 0, evicted_by_order: 0, aborted_promised: 0, aborted_best_effort: 0, demoted: 0, forgotten: 0 }
        "#]],
    );
}

#[test]
fn a_promise_takes_a_slot_from_best_effort() {
    check_with(
        &three(32),
        "a 8+9; b 8+9; c 8+9 !; run 1; d 8+2 !; run 3; counters",
        &expect![[r#"
            1. c:0..8 a:0..8 b:0..8 (34 ms)
            b is displaced, and rests 19 ms
            2. c+1 a+1 d:0..8 (38 ms)
            3. c+1 d+1 a+1 (40 ms)
                d ends: Length after 2
            4. c+1 a+1 b:0..9 (39 ms)
            Counters { preempted_by_pressure: 0, preempted_by_promise: 1, evicted_by_order: 0, aborted_promised: 0, aborted_best_effort: 0, demoted: 0, forgotten: 0 }
        "#]],
    );
}

#[test]
fn a_promise_takes_blocks_from_best_effort_latest_first() {
    check_with(
        &three(12),
        "a 20+40 @900; b 20+40 @800; run 1; c 20+90 !; run 3; counters",
        &expect![[r#"
            1. b:0..20 a:0..20 (50 ms)
            a is displaced, and rests 31 ms
            2. b+1 c:0..20 (40 ms)
            3-4. c+1 b+1 (30 ms)
            Counters { preempted_by_pressure: 0, preempted_by_promise: 1, evicted_by_order: 0, aborted_promised: 0, aborted_best_effort: 0, demoted: 0, forgotten: 0 }
        "#]],
    );
}

#[test]
fn a_promise_takes_nothing_when_that_would_not_be_enough() {
    check_with(
        &three(12),
        "a 20+80 !; b 20+40; run 1; c 20+110 !; run 3; counters",
        &expect![[r#"
        1. a:0..20 b:0..20 (50 ms)
        2-4. a+1 b+1 (30 ms)
        Counters { preempted_by_pressure: 0, preempted_by_promise: 0, evicted_by_order: 0, aborted_promised: 0, aborted_best_effort: 0, demoted: 0, forgotten: 0 }
    "#]],
    );
}

#[test]
fn who_is_displaced_again_rests_twice_as_long() {
    check_with(
        &PLAIN,
        "a 40+20; run 2; b 8+1 ! evicts a; run 1; wait 60; run 2; c 8+1 ! evicts a; run 1
         wait 120; run 2; d 8+1 ! evicts a; run; counters",
        &expect![[r#"
            1. a:0..40 (50 ms)
            2. a+1 (20 ms)
            a is displaced, and rests 52 ms
            3. b:0..8 (18 ms)
                b ends: Length after 1
            4. a:0..40 (50 ms)
            5. a:40..42 (12 ms)
            a is displaced, and rests 106 ms
            6. c:0..8 (18 ms)
                c ends: Length after 1
            7. a:0..40 (50 ms)
            8. a:40..43 (13 ms)
            a is displaced, and rests 216 ms
            9. d:0..8 (18 ms)
                d ends: Length after 1
            sleeps 198 ms
            10. a:0..40 (50 ms)
            11. a:40..44 (14 ms)
            12-26. a+1 (20 ms)
                a ends: Length after 20
            Counters { preempted_by_pressure: 0, preempted_by_promise: 0, evicted_by_order: 3, aborted_promised: 0, aborted_best_effort: 0, demoted: 0, forgotten: 0 }
        "#]],
    );
}

#[test]
fn who_rests_blocks_nobody() {
    check_with(
        &PLAIN,
        "a 60+20; run 2; b 8+1 ! evicts a; c 8+2; d 8+2; run",
        &expect![[r#"
            1. a:0..40 (50 ms)
            2. a:40..60 (30 ms)
            a is displaced, and rests 71 ms
            3. b:0..8 c:0..8 (26 ms)
                b ends: Length after 1
            4. c+1 d:0..8 (28 ms)
                c ends: Length after 2
            5. d+1 (20 ms)
                d ends: Length after 2
            6. a:0..40 (50 ms)
            7. a:40..61 (31 ms)
            8-25. a+1 (20 ms)
                a ends: Length after 20
        "#]],
    );
}

#[test]
fn late_work_finishes_and_a_late_promise_does_so_as_best_effort() {
    check_with(
        &PLAIN,
        "a 8+6 ! @50; b 8+6 @60; run 3; c 8+1 !; run; counters",
        &expect![[r#"
            1. a:0..8 b:0..8 (26 ms)
            2. a+1 b+1 (30 ms)
            a promise is broken
            3. a+1 b+1 (30 ms)
            b is displaced, and rests 21 ms
            4. a+1 c:0..8 (28 ms)
                c ends: Length after 1
            b ends: Evicted after 3
            5-6. a+1 (20 ms)
                a ends: Length after 6
            Counters { preempted_by_pressure: 0, preempted_by_promise: 1, evicted_by_order: 0, aborted_promised: 0, aborted_best_effort: 0, demoted: 1, forgotten: 0 }
        "#]],
    );
}

#[test]
fn late_best_effort_is_aborted_where_the_rules_say_so() {
    let setup = under(&PLAIN, |rules| rules.lateness = Lateness::AbortBestEffort);
    check_with(
        &setup,
        "a 8+6 ! @50; b 8+6 @60; run; counters",
        &expect![[r#"
        1. a:0..8 b:0..8 (26 ms)
        2. a+1 b+1 (30 ms)
        a promise is broken
        3. a+1 b+1 (30 ms)
        b ends: Deadline after 3
        4-6. a+1 (20 ms)
            a ends: Length after 6
        Counters { preempted_by_pressure: 0, preempted_by_promise: 0, evicted_by_order: 0, aborted_promised: 0, aborted_best_effort: 1, demoted: 1, forgotten: 0 }
    "#]],
    );
}

#[test]
fn all_late_work_is_aborted_where_the_rules_say_so() {
    let setup = under(&PLAIN, |rules| rules.lateness = Lateness::AbortAll);
    check_with(
        &setup,
        "a 8+6 ! @50; b 8+6 @60; run; counters",
        &expect![[r#"
        1. a:0..8 b:0..8 (26 ms)
        2. a+1 b+1 (30 ms)
        a ends: Deadline after 2
        3. b+1 (20 ms)
        b ends: Deadline after 3
        Counters { preempted_by_pressure: 0, preempted_by_promise: 0, evicted_by_order: 0, aborted_promised: 1, aborted_best_effort: 1, demoted: 0, forgotten: 0 }
    "#]],
    );
}

#[test]
fn who_was_displaced_ends_at_its_deadline() {
    check_with(
        &PLAIN,
        "a 40+9 @200; run 2; b 8+9 !; c 8+9 ! evicts a; run",
        &expect![[r#"
            1. a:0..40 (50 ms)
            2. a+1 (20 ms)
            a is displaced, and rests 52 ms
            3. b:0..8 c:0..8 (26 ms)
            4-7. b+1 c+1 (30 ms)
            a ends: Evicted after 2
            8-11. b+1 c+1 (30 ms)
                b ends: Length after 9
                c ends: Length after 9
        "#]],
    );
}
