use std::ops::Range;

use sample::Sampling;
use units::RequestId;

use super::*;

const LIMITS: Limits =
    Limits { slots: 2, owners: 3, context_tokens: 16, cells: None, rows: 8, vocabulary: 100 };
const ID: RequestId = RequestId(1);

fn join(slot: u32) -> StepPlan {
    let join = Join {
        slot: Slot(slot),
        id: ID,
        sampling: Sampling::GREEDY,
        history: vec![Token(1); 10].into(),
        sampled: 0,
        top_logprobs: None,
        reuse: None,
    };
    StepPlan { joins: vec![join], ..StepPlan::default() }
}

/// Adds a piece of a prompt of 10 tokens.
fn prefill(mut plan: StepPlan, slot: u32, range: Range<usize>) -> StepPlan {
    let last = range.end == 10;
    plan.prefills.push(Prefill {
        slot: Slot(slot),
        id: ID,
        prompt: vec![Token(1); 10].into(),
        range,
        last,
    });
    plan
}

fn decode(mut plan: StepPlan, slot: u32, position: u32, token: u32) -> StepPlan {
    plan.decodes.push(Decode { slot: Slot(slot), id: ID, token: Token(token), position });
    plan
}

/// Adds a move that keeps tokens of slot 0.
fn keep(mut plan: StepPlan, owner: u32, tokens: u32) -> StepPlan {
    plan.moves.push(Move::Keep { slot: Slot(0), owner: Owner(owner), tokens });
    plan
}

fn give_up(mut plan: StepPlan, owner: u32) -> StepPlan {
    plan.moves.push(Move::Drop { owner: Owner(owner) });
    plan
}

fn cut(mut plan: StepPlan, owner: u32, tokens: u32) -> StepPlan {
    plan.moves.push(Move::Cut { owner: Owner(owner), tokens });
    plan
}

/// Slot 1 begins with tokens of an owner, and goes on with one of its own.
fn reuse(mut plan: StepPlan, owner: u32, tokens: u32) -> StepPlan {
    let mut join = join(1).joins.remove(0);
    join.reuse = Some(Reuse { owner: Owner(owner), tokens });
    plan.joins.push(join);
    let at = tokens as usize;
    prefill(plan, 1, at..at + 1)
}

/// A ledger whose slot 0 holds a prompt of 10 tokens.
fn running() -> Ledger {
    running_in(LIMITS)
}

fn running_in(limits: Limits) -> Ledger {
    let mut ledger = Ledger::new(limits);
    for plan in [prefill(join(0), 0, 0..7), prefill(StepPlan::default(), 0, 7..10)] {
        assert_eq!(ledger.note(&plan), Ok(()));
    }
    ledger
}

fn refuse(plan: &StepPlan, reason: &str) {
    refuse_in(running(), plan, reason);
}

fn refuse_in(mut ledger: Ledger, plan: &StepPlan, reason: &str) {
    assert_eq!(ledger.note(plan), Err(EngineError::Unfit(reason.to_owned())));
    let next = decode(StepPlan::default(), 0, 10, 5);
    assert_eq!(ledger.note(&next), Ok(()), "a refused plan changes nothing");
}

#[test]
fn a_sequence_goes_on_where_it_is() {
    let mut ledger = running();
    for position in 10..16 {
        assert_eq!(ledger.note(&decode(StepPlan::default(), 0, position, 99)), Ok(()));
    }
    let beyond = ledger.note(&decode(StepPlan::default(), 0, 16, 99));
    assert_eq!(beyond, Err(EngineError::Unfit("17 tokens in a slot of 16".to_owned())));
}

#[test]
fn joining_empties_a_slot() {
    let mut ledger = running();
    assert_eq!(ledger.note(&prefill(join(0), 0, 0..8)), Ok(()));
    assert_eq!(ledger.note(&prefill(StepPlan::default(), 0, 8..10)), Ok(()));
}

#[test]
fn a_forgotten_slot_belongs_to_nobody_until_it_is_joined() {
    let mut ledger = running();
    ledger.forget(Slot(0));
    let next = decode(StepPlan::default(), 0, 10, 5);
    let refused = EngineError::Unfit("slot 0 belongs to nobody".to_owned());
    assert_eq!(ledger.note(&next), Err(refused));
    assert_eq!(ledger.note(&prefill(join(0), 0, 0..1)), Ok(()));
}

#[test]
fn plans_that_do_not_go_on_from_what_is_held() {
    let none = StepPlan::default;
    refuse(&decode(none(), 0, 9, 5), "position 9 in slot 0, which holds 10");
    refuse(&decode(none(), 0, 11, 5), "position 11 in slot 0, which holds 10");
    refuse(&decode(decode(none(), 0, 10, 5), 0, 10, 5), "position 10 in slot 0, which holds 11");
    refuse(&prefill(join(1), 1, 3..5), "position 3 in slot 1, which holds 0");
    refuse(&decode(none(), 1, 0, 5), "slot 1 belongs to nobody");
}

#[test]
fn plans_beyond_the_backends_limits() {
    let none = StepPlan::default;
    refuse(&none(), "0 rows, and 1 to 8 fit");
    refuse(&join(1), "0 rows, and 1 to 8 fit");
    refuse(&prefill(join(1), 1, 0..9), "9 rows, and 1 to 8 fit");
    refuse(&decode(join(2), 0, 10, 5), "slot 2 of 2");
    refuse(&decode(none(), 7, 0, 5), "slot 7 of 2");
    refuse(&decode(none(), 0, 10, 100), "token 100 of a vocabulary of 100");
    refuse(&decode(none(), 0, 10, u32::MAX), "token 4294967295 of a vocabulary of 100");
}

#[test]
fn pieces_that_are_none() {
    let mut early = prefill(join(1), 1, 0..2);
    early.prefills[0].last = true;
    refuse(&early, "piece 0..2 is wrong about where the prompt ends");
    refuse(&prefill(decode(join(1), 0, 10, 5), 1, 0..0), "piece 0..0 of a prompt of 10");
    refuse(&prefill(join(1), 1, 8..11), "piece 8..11 of a prompt of 10");
}

#[test]
fn parameters_that_cannot_be_drawn_with() {
    let mut plan = decode(join(1), 0, 10, 5);
    plan.joins[0].sampling.top_p = f32::NAN;
    refuse(&plan, "top_p must be from 0 to 1, not NaN");
}

/// Slot 0 takes another token at `position`, which is what most plans below need a row for.
fn next(position: u32) -> StepPlan {
    decode(StepPlan::default(), 0, position, 5)
}

/// A ledger whose slot 0 holds 11 tokens, the first 8 of them kept under owner 1.
fn keeping() -> Ledger {
    let mut ledger = running();
    assert_eq!(ledger.note(&keep(next(10), 1, 8)), Ok(()));
    ledger
}

#[test]
fn what_is_kept_is_reused_in_whole_or_in_part_until_it_is_dropped() {
    let mut ledger = keeping();
    for tokens in [8, 1, 8] {
        assert_eq!(ledger.note(&reuse(StepPlan::default(), 1, tokens)), Ok(()));
    }
    assert_eq!(ledger.note(&prefill(StepPlan::default(), 1, 9..10)), Ok(()));
    assert_eq!(ledger.note(&give_up(next(11), 1)), Ok(()));
    let gone = "1 tokens reused of owner 1, which keeps 0".to_owned();
    assert_eq!(ledger.note(&reuse(next(12), 1, 1)), Err(EngineError::Unfit(gone)));
}

#[test]
fn what_is_kept_outlives_the_slots_sequence() {
    let mut ledger = running();
    // The slot is joined again by the very plan that keeps what it held.
    assert_eq!(ledger.note(&prefill(keep(join(0), 0, 10), 0, 0..1)), Ok(()));
    ledger.forget(Slot(0));
    assert_eq!(ledger.note(&reuse(StepPlan::default(), 0, 9)), Ok(()));
}

#[test]
fn moves_come_in_order_and_before_joins() {
    let mut ledger = keeping();
    let again = keep(give_up(next(11), 1), 1, 11);
    assert_eq!(ledger.note(&reuse(again, 1, 9)), Ok(()));
    let dropped = reuse(give_up(next(12), 1), 1, 9);
    let gone = "9 tokens reused of owner 1, which keeps 0".to_owned();
    assert_eq!(ledger.note(&dropped), Err(EngineError::Unfit(gone)));
    assert_eq!(ledger.note(&reuse(next(12), 1, 9)), Ok(()), "it was not dropped after all");
}

#[test]
fn what_is_cut_is_reused_up_to_there() {
    let mut ledger = keeping();
    assert_eq!(ledger.note(&cut(next(11), 1, 5)), Ok(()));
    let short = "6 tokens reused of owner 1, which keeps 5".to_owned();
    assert_eq!(ledger.note(&reuse(next(12), 1, 6)), Err(EngineError::Unfit(short)));
    assert_eq!(ledger.note(&reuse(next(12), 1, 5)), Ok(()));
}

#[test]
fn whoever_knows_nothing_may_drop_everything() {
    let mut ledger = keeping();
    let nothing = (0..3).fold(next(11), give_up);
    assert_eq!(ledger.note(&nothing), Ok(()));
    assert_eq!(ledger.note(&keep(next(12), 1, 12)), Ok(()));
}

#[test]
fn what_is_lost_can_not_be_reused() {
    let mut ledger = keeping();
    ledger.lose(Owner(1));
    let gone = "8 tokens reused of owner 1, which keeps 0".to_owned();
    assert_eq!(ledger.note(&reuse(next(11), 1, 8)), Err(EngineError::Unfit(gone)));
    assert_eq!(ledger.note(&keep(next(11), 1, 8)), Ok(()));
}

#[test]
fn moves_of_what_is_not_there() {
    refuse(&keep(next(10), 0, 11), "11 tokens kept of slot 0, which holds 10");
    refuse(&keep(next(10), 0, 0), "0 tokens kept of slot 0, which holds 10");
    refuse(&keep(next(10), 3, 8), "owner 3 of 3");
    refuse(&give_up(next(10), u32::MAX), "owner 4294967295 of 3");
    refuse(&keep(keep(next(10), 2, 8), 2, 8), "owner 2 keeps 8 tokens already");
    refuse(&cut(next(10), 0, 1), "owner 0 is cut to 1 tokens and keeps 0");
    let kept = || keep(next(10), 0, 8);
    refuse(&cut(kept(), 0, 8), "owner 0 is cut to 8 tokens and keeps 8");
    refuse(&cut(kept(), 0, 0), "owner 0 is cut to 0 tokens and keeps 8");
    refuse(&cut(kept(), 3, 1), "owner 3 of 3");
    let mut of_nobody = keep(next(10), 0, 1);
    of_nobody.moves.push(Move::Keep { slot: Slot(1), owner: Owner(1), tokens: 1 });
    refuse(&of_nobody, "slot 1 belongs to nobody");
    of_nobody.moves.push(Move::Keep { slot: Slot(9), owner: Owner(1), tokens: 1 });
    of_nobody.moves.swap_remove(1);
    refuse(&of_nobody, "slot 9 of 2");
}

#[test]
fn joins_with_what_is_not_kept() {
    refuse(&reuse(StepPlan::default(), 0, 1), "1 tokens reused of owner 0, which keeps 0");
    refuse(&reuse(keep(next(10), 0, 8), 0, 9), "9 tokens reused of owner 0, which keeps 8");
    refuse(&reuse(keep(next(10), 0, 8), 0, 0), "0 tokens reused of owner 0, which keeps 8");
    refuse(&reuse(StepPlan::default(), 3, 1), "owner 3 of 3");
    let mut whole = keep(next(10), 0, 10);
    whole.joins.push(Join {
        reuse: Some(Reuse { owner: Owner(0), tokens: 10 }),
        ..join(1).joins.remove(0)
    });
    refuse(&whole, "10 tokens reused of a history of 10");
    let mut early = reuse(keep(next(10), 0, 8), 0, 8);
    early.prefills[0].range = 0..1;
    refuse(&early, "position 0 in slot 1, which holds 8");
}

/// One pool, in which 10 cells are in use.
fn pool(cells: u32) -> Ledger {
    running_in(Limits { cells: Some(cells), ..LIMITS })
}

#[test]
fn a_pool_is_filled_to_its_last_cell_and_no_further() {
    let mut ledger = pool(12);
    assert_eq!(ledger.note(&prefill(join(1), 1, 0..2)), Ok(()));
    let full = "13 cells in use, and 12 exist".to_owned();
    assert_eq!(ledger.note(&next(10)), Err(EngineError::Unfit(full)));
    ledger.forget(Slot(1));
    assert_eq!(ledger.note(&next(10)), Ok(()), "what a slot held is free again");
}

#[test]
fn shared_cells_are_there_once_and_as_long_as_anybody_has_them() {
    let mut ledger = pool(13);
    // Slot 0 adds one, and slot 1 one after the 9 that it shares.
    assert_eq!(ledger.note(&reuse(keep(next(10), 1, 10), 1, 9)), Ok(()));
    // Slot 0 begins anew: its eleventh cell is free, the kept ten are not.
    assert_eq!(ledger.note(&prefill(join(0), 0, 0..2)), Ok(()));
    refuse_pool(&mut ledger, &prefill(StepPlan::default(), 0, 2..3), 14);
    // Of the owner's ten cells, slot 1 still has nine.
    assert_eq!(ledger.note(&prefill(give_up(StepPlan::default(), 1), 0, 2..3)), Ok(()));
    refuse_pool(&mut ledger, &prefill(StepPlan::default(), 0, 3..4), 14);
}

#[test]
fn what_grows_out_of_a_kept_prefix_is_kept_with_it() {
    let mut ledger = pool(13);
    let kept = reuse(keep(next(10), 1, 8), 1, 8);
    assert_eq!(ledger.note(&kept), Ok(()), "8 shared, 3 and 1 beyond them");
    let mut grown = prefill(StepPlan::default(), 1, 9..10);
    grown.moves.push(Move::Keep { slot: Slot(1), owner: Owner(2), tokens: 9 });
    assert_eq!(ledger.note(&give_up(grown, 1)), Ok(()));
    // Both slots begin anew: what is left is owner 2's, nine cells of two runs.
    assert_eq!(ledger.note(&prefill(join(0), 0, 0..1)), Ok(()));
    assert_eq!(ledger.note(&prefill(join(1), 1, 0..2)), Ok(()));
    refuse_pool(&mut ledger, &prefill(StepPlan::default(), 1, 2..4), 14);
}

#[test]
fn a_cut_frees_cells_of_every_run() {
    let mut ledger = pool(13);
    assert_eq!(ledger.note(&reuse(keep(next(10), 1, 8), 1, 8)), Ok(()));
    let mut grown = prefill(StepPlan::default(), 1, 9..10);
    grown.moves.push(Move::Keep { slot: Slot(1), owner: Owner(2), tokens: 9 });
    assert_eq!(ledger.note(&grown), Ok(()));
    // Nobody but the owners has any of it.
    ledger.forget(Slot(0));
    ledger.forget(Slot(1));
    let cut_to = |tokens| cut(give_up(prefill(join(0), 0, 0..8), 1), 2, tokens);
    refuse_pool(&mut ledger, &cut_to(8), 16);
    assert_eq!(ledger.note(&cut_to(5)), Ok(()));
    refuse_pool(&mut ledger, &prefill(StepPlan::default(), 0, 8..9), 14);
}

fn refuse_pool(ledger: &mut Ledger, plan: &StepPlan, used: u32) {
    let cells = ledger.limits.cells.expect("is a pool");
    let full = format!("{used} cells in use, and {cells} exist");
    assert_eq!(ledger.note(plan), Err(EngineError::Unfit(full)));
}
