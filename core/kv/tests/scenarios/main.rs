//! Prefixes as a reader would tell them: what is asked, and what comes of it.
//!
//! A letter is a block of 16 tokens, `+5` five more. Each scenario runs on the production core and on the
//! reference.

mod script;

use expect_test::{Expect, expect};
use kv::{Kind, Layout, Options};
use units::BlockCount;

/// A pool of so many blocks that sequences and the cache share, and so many owners.
fn unified(blocks: u32, owners: u32, script: &str, expected: Expect) {
    check(
        Options { blocks: BlockCount(blocks), layout: Layout::Unified, owners, prefixes: true },
        script,
        expected,
    );
}

/// Streams of so many blocks in all, states of so many tokens in all.
fn streams(blocks: u32, tokens_max: u64, script: &str, expected: Expect) {
    let layout = Layout::Streams { token_bytes: 10, bytes_max: tokens_max * 10 };
    check(
        Options { blocks: BlockCount(blocks), layout, owners: 8, prefixes: true },
        script,
        expected,
    );
}

fn check(options: Options, script: &str, expected: Expect) {
    let ours = script::run(Kind::Paged.build(options), script);
    assert_eq!(ours, script::run(Kind::Naive.build(options), script), "ours, and the reference");
    expected.assert_eq(&ours);
}

#[test]
fn the_second_with_the_same_beginning_shares_it() {
    unified(
        10,
        4,
        "a = SSx 4; a keeps SSx; b = SSy+3 4; b keeps SSy; a ends; b ends; usage",
        expect![[r#"
            a = SSx 4: found nothing, has [] + [0, 1, 2, 3]
            a keeps SSx: kept by 0
            b = SSy+3 4: found 32 of 0, has [0, 1] + [4, 5]
            b keeps SSy: kept by 1
            a ends: done
            b ends: done
            usage: 0 held 4 reclaimable 6 free, 2 owners 0 bytes, 0 copies 0 evictions
        "#]],
    );
}

#[test]
fn a_prompt_shorter_than_a_block_is_not_kept() {
    unified(
        4,
        4,
        "a = +9 1; a keeps +9; b = +9 1",
        expect![[r#"
        a = +9 1: found nothing, has [] + [0]
        a keeps +9: nothing kept
        b = +9 1: found nothing, has [] + [1]
    "#]],
    );
}

#[test]
fn the_last_block_of_a_prompt_that_is_kept_whole_is_copied() {
    unified(
        6,
        4,
        "a = SS 2; a keeps SS; a ends; b = SS 3; b keeps SSx; b ends; usage",
        expect![[r#"
            a = SS 2: found nothing, has [] + [0, 1]
            a keeps SS: kept by 0
            a ends: done
            b = SS 3: found 31 of 0, has [0] + [2, 3]
            b keeps SSx: nothing kept
            b ends: done
            usage: 0 held 2 reclaimable 4 free, 1 owners 0 bytes, 1 copies 0 evictions
        "#]],
    );
}

#[test]
fn a_single_block_that_is_kept_whole_is_copied_too() {
    unified(
        4,
        4,
        "a = S 1; a keeps S; b = S 2",
        expect![[r#"
        a = S 1: found nothing, has [] + [0]
        a keeps S: kept by 0
        b = S 2: found 15 of 0, has [] + [1, 2]
    "#]],
    );
}

#[test]
fn the_owner_of_a_grown_conversation_is_given_up() {
    unified(
        8,
        4,
        "a = ST 3; a keeps ST; a keeps STu; a ends; b = STuv+1 5; b keeps STuv; b ends; usage",
        expect![[r#"
            a = ST 3: found nothing, has [] + [0, 1, 2]
            a keeps ST: kept by 0
            a keeps STu: kept by 0; 0 is given up
            a ends: done
            b = STuv+1 5: found 48 of 0, has [0, 1, 2] + [3, 4]
            b keeps STuv: kept by 0; 0 is given up
            b ends: done
            usage: 0 held 4 reclaimable 4 free, 1 owners 0 bytes, 0 copies 0 evictions
        "#]],
    );
}

#[test]
fn duplicates_stay_with_the_lease_that_computed_them() {
    unified(
        9,
        4,
        "a = SS 3; b = SS 4; a keeps SS; b keeps SS; b keeps SSx; b ends; a ends; usage",
        expect![[r#"
            a = SS 3: found nothing, has [] + [0, 1, 2]
            b = SS 4: found nothing, has [] + [3, 4, 5, 6]
            a keeps SS: kept by 0
            b keeps SS: nothing kept
            b keeps SSx: nothing kept
            b ends: done
            a ends: done
            usage: 0 held 2 reclaimable 7 free, 1 owners 0 bytes, 0 copies 0 evictions
        "#]],
    );
}

#[test]
fn streams_keep_what_goes_on_from_a_duplicate() {
    streams(
        9,
        200,
        "a = SS 3; b = SS 4; a keeps SS; b keeps SSx; b ends; a ends; c = SSx+1 4; usage",
        expect![[r#"
            a = SS 3: found nothing, has [] + [0, 1, 2]
            b = SS 4: found nothing, has [] + [3, 4, 5, 6]
            a keeps SS: kept by 0
            b keeps SSx: kept by 0; 0 is given up
            b ends: done
            a ends: done
            c = SSx+1 4: found 48 of 0, has [] + [0, 1, 2, 3]
            usage: 4 held 0 reclaimable 5 free, 1 owners 480 bytes, 0 copies 0 evictions
        "#]],
    );
}

/// The crash of the first gateway of this design: to make room for the rest of a prompt, the admission
/// evicted the beginning that it had just matched.
#[test]
fn what_an_admission_matched_is_not_evicted_to_make_room_for_it() {
    unified(
        4,
        4,
        "a = SS 2; a keeps SS; a ends; b = xy 2; b keeps xy; b ends; ? xy; c = SSzz 4",
        expect![[r#"
            a = SS 2: found nothing, has [] + [0, 1]
            a keeps SS: kept by 0
            a ends: done
            b = xy 2: found nothing, has [] + [2, 3]
            b keeps xy: kept by 1
            b ends: done
            ? xy: found 31 of 1
            c = SSzz 4: found 32 of 0, has [0, 1] + [2, 3]; 1 is given up
        "#]],
    );
}

#[test]
fn an_admission_that_does_not_fit_beside_what_it_matched_evicts_nothing() {
    unified(
        4,
        4,
        "a = SS 2; a keeps SS; a ends; b = xy 2; b keeps xy; c = SSzz 5; ? SSz; ? xyz",
        expect![[r#"
            a = SS 2: found nothing, has [] + [0, 1]
            a keeps SS: kept by 0
            a ends: done
            b = xy 2: found nothing, has [] + [2, 3]
            b keeps xy: kept by 1
            c = SSzz 5: found 32 of 0, refused
            ? SSz: found 32 of 0
            ? xyz: found 32 of 1
        "#]],
    );
}

/// Owners are as scarce as blocks, and are taken back in the same way.
#[test]
fn when_all_owners_are_taken_the_least_recent_prefix_gives_one_up() {
    unified(
        20,
        2,
        "a = p 1; a keeps p; a ends; b = q 1; b keeps q; b ends; ? p+1; c = r 1; c keeps r; c ends; ? p+1; ? q+1; usage",
        expect![[r#"
            a = p 1: found nothing, has [] + [0]
            a keeps p: kept by 0
            a ends: done
            b = q 1: found nothing, has [] + [1]
            b keeps q: kept by 1
            b ends: done
            ? p+1: found 16 of 0
            c = r 1: found nothing, has [] + [2]
            c keeps r: kept by 1; 1 is given up
            c ends: done
            ? p+1: found 16 of 0
            ? q+1: found nothing
            usage: 0 held 2 reclaimable 18 free, 2 owners 0 bytes, 0 copies 1 evictions
        "#]],
    );
}

#[test]
fn when_all_owners_are_pinned_nothing_is_kept_and_nothing_evicted() {
    unified(
        20,
        2,
        "a = p 1; a keeps p; b = q 1; b keeps q; c = r 1; c keeps r; c ends; a ends; d = s 1; d keeps s; usage",
        expect![[r#"
            a = p 1: found nothing, has [] + [0]
            a keeps p: kept by 0
            b = q 1: found nothing, has [] + [1]
            b keeps q: kept by 1
            c = r 1: found nothing, has [] + [2]
            c keeps r: nothing kept
            c ends: done
            a ends: done
            d = s 1: found nothing, has [] + [2]
            d keeps s: kept by 0; 0 is given up
            usage: 2 held 0 reclaimable 18 free, 2 owners 0 bytes, 0 copies 1 evictions
        "#]],
    );
}

#[test]
fn a_conversation_may_take_over_the_last_owner_from_itself() {
    unified(
        20,
        1,
        "a = p 1; a keeps p; a grows 1; a keeps pq; a ends; ? pqr",
        expect![[r#"
        a = p 1: found nothing, has [] + [0]
        a keeps p: kept by 0
        a grows 1: has [0] + [1]
        a keeps pq: kept by 0; 0 is given up
        a ends: done
        ? pqr: found 32 of 0
    "#]],
    );
}

#[test]
fn a_state_larger_than_all_room_is_not_kept() {
    streams(
        20,
        40,
        "a = pq 2; a keeps pq; b = xyz 3; b keeps xyz; a ends; ? pq+1; usage",
        expect![[r#"
            a = pq 2: found nothing, has [] + [0, 1]
            a keeps pq: kept by 0
            b = xyz 3: found nothing, has [] + [2, 3, 4]
            b keeps xyz: nothing kept
            a ends: done
            ? pq+1: found 32 of 0
            usage: 3 held 0 reclaimable 17 free, 1 owners 320 bytes, 0 copies 0 evictions
        "#]],
    );
}

#[test]
fn states_are_given_up_least_recent_first_until_the_next_fits() {
    streams(
        20,
        64,
        "a = pp 2; a keeps pp; a ends; b = q 1; b keeps q; b ends; ? pp+1; c = rr 2; c keeps rr; c ends; ? q+1; ? pp+1; ? rr+1; usage",
        expect![[r#"
            a = pp 2: found nothing, has [] + [0, 1]
            a keeps pp: kept by 0
            a ends: done
            b = q 1: found nothing, has [] + [0]
            b keeps q: kept by 1
            b ends: done
            ? pp+1: found 32 of 0
            c = rr 2: found nothing, has [] + [0, 1]
            c keeps rr: kept by 1; 1 is given up
            c ends: done
            ? q+1: found nothing
            ? pp+1: found 32 of 0
            ? rr+1: found 32 of 1
            usage: 0 held 0 reclaimable 20 free, 2 owners 640 bytes, 0 copies 1 evictions
        "#]],
    );
}

#[test]
fn evicting_the_end_of_a_path_cuts_its_owner_back() {
    unified(
        6,
        4,
        "a = SSxx 4; a keeps SSxx; a ends; ? SS+1; b = yyyy 4; usage; ? SS+1",
        expect![[r#"
            a = SSxx 4: found nothing, has [] + [0, 1, 2, 3]
            a keeps SSxx: kept by 0
            a ends: done
            ? SS+1: found 32 of 0
            b = yyyy 4: found nothing, has [] + [2, 3, 4, 5]; 0 is cut to 32
            usage: 4 held 2 reclaimable 0 free, 1 owners 0 bytes, 0 copies 1 evictions
            ? SS+1: found 32 of 0
        "#]],
    );
}

#[test]
fn what_is_evicted_first_was_let_go_first() {
    unified(
        4,
        4,
        "a = p 1; a keeps p; b = q 1; b keeps q; b ends; a ends; ? q+1; c = xyz 3; ? p+1; ? q+1",
        expect![[r#"
            a = p 1: found nothing, has [] + [0]
            a keeps p: kept by 0
            b = q 1: found nothing, has [] + [1]
            b keeps q: kept by 1
            b ends: done
            a ends: done
            ? q+1: found 16 of 1
            c = xyz 3: found nothing, has [] + [0, 2, 3]; 0 is given up
            ? p+1: found nothing
            ? q+1: found 16 of 1
        "#]],
    );
}

#[test]
fn leases_and_matches_from_before_a_forgetting_can_be_handed_back() {
    unified(
        6,
        4,
        "a = SS 3; a keeps SS; b ~ SSx; forget; b takes 2; a keeps SSy; a ends; b ends; ? SS+1; usage",
        expect![[r#"
            a = SS 3: found nothing, has [] + [0, 1, 2]
            a keeps SS: kept by 0
            b ~ SSx: found 32 of 0
            forget: done; 0 is given up
            b takes 2: has [] + [3, 4]
            a keeps SSy: nothing kept
            a ends: done
            b ends: done
            ? SS+1: found nothing
            usage: 0 held 0 reclaimable 6 free, 0 owners 0 bytes, 0 copies 0 evictions
        "#]],
    );
}

#[test]
fn whoever_pinned_nothing_before_a_forgetting_publishes_after_it() {
    unified(
        6,
        4,
        "a = SS 2; forget; a keeps SS; a ends; ? SS+1",
        expect![[r#"
        a = SS 2: found nothing, has [] + [0, 1]
        forget: done
        a keeps SS: kept by 0
        a ends: done
        ? SS+1: found 32 of 0
    "#]],
    );
}

#[test]
fn a_lease_may_grow_after_it_has_published() {
    unified(
        4,
        4,
        "a = SS 2; a keeps SS; a grows 1; a grows 2; a ends; usage",
        expect![[r#"
        a = SS 2: found nothing, has [] + [0, 1]
        a keeps SS: kept by 0
        a grows 1: has [0, 1] + [2]
        a grows 2: refused
        a ends: done
        usage: 0 held 2 reclaimable 2 free, 1 owners 0 bytes, 0 copies 0 evictions
    "#]],
    );
}

#[test]
fn a_pool_of_no_blocks_gives_none() {
    unified(
        0,
        0,
        "a = SS 2; b = +5 0; b keeps +5; b ends; usage",
        expect![[r#"
        a = SS 2: found nothing, refused
        b = +5 0: found nothing, has [] + []
        b keeps +5: nothing kept
        b ends: done
        usage: 0 held 0 reclaimable 0 free, 0 owners 0 bytes, 0 copies 0 evictions
    "#]],
    );
}

#[test]
fn no_more_is_published_than_the_lease_has_blocks() {
    unified(
        4,
        4,
        "a = SS 1; a keeps SS; ? SS+1",
        expect![[r#"
        a = SS 1: found nothing, has [] + [0]
        a keeps SS: kept by 0
        ? SS+1: found 16 of 0
    "#]],
    );
}
