use std::ops::Range;

use sample::Sampling;
use units::RequestId;

use super::*;

const LIMITS: Limits = Limits { slots: 2, context_tokens: 16, rows: 8, vocabulary: 100 };
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

/// A ledger whose slot 0 holds a prompt of 10 tokens.
fn running() -> Ledger {
    let mut ledger = Ledger::new(LIMITS);
    for plan in [prefill(join(0), 0, 0..7), prefill(StepPlan::default(), 0, 7..10)] {
        assert_eq!(ledger.note(&plan), Ok(()));
    }
    ledger
}

fn refuse(plan: &StepPlan, reason: &str) {
    let mut ledger = running();
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
