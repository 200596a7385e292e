//! What a step does when a prefix cannot be moved. llama.cpp itself never refuses here, so a layout
//! stands in that does.

use std::{path::PathBuf, sync::Arc};

use sample::Sampling;
use sched::{Decode, Join, Prefill, Reuse};

use super::*;

const ID: RequestId = RequestId(1);

/// Does nothing, and fails at what it is told to fail at.
#[derive(Clone, Copy, Debug, Default)]
struct Broken {
    keeps: bool,
    begins: bool,
}

impl Layout for Broken {
    fn keep(
        &mut self,
        _: &mut LlamaContext<'_>,
        slot: Slot,
        _: Owner,
        _: u32,
    ) -> Result<(), LayoutError> {
        if self.keeps { Err(LayoutError::Save(slot)) } else { Ok(()) }
    }

    fn cut(&mut self, _: &mut LlamaContext<'_>, owner: Owner, _: u32) -> Result<(), LayoutError> {
        Err(LayoutError::Missing(owner))
    }

    fn give_up(&mut self, _: &mut LlamaContext<'_>, _: Owner) -> Result<(), LayoutError> {
        Ok(())
    }

    fn begin(
        &mut self,
        llama: &mut LlamaContext<'_>,
        slot: Slot,
        reuse: Option<Reuse>,
    ) -> Result<(), LayoutError> {
        match reuse {
            Some(reuse) if self.begins => Err(LayoutError::Restore(reuse.owner)),
            Some(_) => Ok(()),
            None => self.leave(llama, slot),
        }
    }

    fn leave(&mut self, llama: &mut LlamaContext<'_>, slot: Slot) -> Result<(), LayoutError> {
        Unified::new(2).leave(llama, slot)
    }

    fn settle(&mut self, _: &mut LlamaContext<'_>) {}

    fn sequence(&self, slot: Slot) -> i32 {
        slot.0.cast_signed()
    }

    fn wants_order(&self) -> bool {
        true
    }

    fn kept_bytes(&self) -> u64 {
        0
    }
}

fn model() -> Model {
    let default = "../../.cache/models/SmolLM2-135M-Instruct.Q4_1.gguf";
    let default = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(default);
    let path = std::env::var_os("CADENCE_TEST_MODEL").map_or_else(default, PathBuf::from);
    Model::open(&path, 0).expect("a model; run `make model`")
}

fn context(model: &Model) -> Context<'_> {
    context_of(model, 2)
}

fn context_of(model: &Model, slots: u32) -> Context<'_> {
    let options = Options {
        slots,
        context_tokens: 256,
        batch_tokens: 8,
        threads: 1,
        owners: 2,
        layout: LayoutKind::Streams,
    };
    model.context(&options).expect("fits into memory")
}

/// Slot 0 decodes its fifth token.
fn go_on() -> StepPlan {
    let decode = Decode { slot: Slot(0), id: ID, token: Token(5), position: 4 };
    StepPlan { decodes: vec![decode], ..StepPlan::default() }
}

/// A prompt joins and computes what it does not reuse.
fn begin(slot: u32, reuse: Option<Reuse>) -> StepPlan {
    let history: Arc<[Token]> = vec![Token(7); 4].into();
    let from = reuse.map_or(0, |reuse| reuse.tokens as usize);
    let prefill =
        Prefill { slot: Slot(slot), id: ID, prompt: history.clone(), range: from..4, last: true };
    let join = Join {
        slot: Slot(slot),
        id: ID,
        sampling: Sampling::GREEDY,
        history,
        sampled: 0,
        top_logprobs: None,
        reuse,
    };
    StepPlan { joins: vec![join], prefills: vec![prefill], ..StepPlan::default() }
}

fn keep() -> Move {
    Move::Keep { slot: Slot(0), owner: Owner(1), tokens: 4 }
}

#[test]
fn a_prefix_that_cannot_be_kept_is_lost_and_the_step_goes_on() {
    let model = model();
    let mut context = context(&model);
    context.execute(&begin(0, None)).expect("a prompt");
    context.layout = Box::new(Broken { keeps: true, ..Broken::default() });
    let step = StepPlan { moves: vec![keep()], ..go_on() };
    let outcome = context.execute(&step).expect("the step itself is well");
    assert_eq!((outcome.lost, outcome.sampled.len()), (vec![Owner(1)], 1));
    let refused = context.execute(&begin(1, Some(Reuse { owner: Owner(1), tokens: 3 })));
    assert!(matches!(refused, Err(EngineError::Unfit(_))), "{refused:?}");
}

#[test]
fn a_prefix_that_cannot_be_cut_is_lost() {
    let model = model();
    let mut context = context(&model);
    context.execute(&begin(0, None)).expect("a prompt");
    context.layout = Box::new(Broken::default());
    let cut = Move::Cut { owner: Owner(1), tokens: 2 };
    let step = StepPlan { moves: vec![keep(), cut], ..go_on() };
    let outcome = context.execute(&step).expect("the step itself is well");
    assert_eq!((outcome.lost, outcome.sampled.len()), (vec![Owner(1)], 1));
    let refused = context.execute(&begin(1, Some(Reuse { owner: Owner(1), tokens: 2 })));
    assert!(matches!(refused, Err(EngineError::Unfit(_))), "{refused:?}");
}

#[test]
fn a_join_whose_prefix_cannot_be_restored_fails_and_the_next_one_is_told() {
    let model = model();
    let mut context = context(&model);
    context.execute(&begin(0, None)).expect("a prompt");
    context.layout = Box::new(Broken { begins: true, ..Broken::default() });
    let reuse = Some(Reuse { owner: Owner(1), tokens: 3 });
    let step = StepPlan { moves: vec![keep()], ..begin(1, reuse) };
    let restored = context.execute(&step);
    let error = "the state of owner 1 cannot be restored".to_owned();
    assert_eq!(restored, Err(EngineError::Backend(error)));
    // Whose prefix is gone for good, so that not everybody after it fails; other slots go on.
    let refused = context.execute(&begin(1, reuse));
    assert!(matches!(refused, Err(EngineError::Unfit(_))), "{refused:?}");
    context.execute(&go_on()).expect("slot 0 was not in the plan");
    context.execute(&begin(1, None)).expect("slot 1 is empty");
}

#[test]
fn a_sequence_with_a_hole_is_found_out() {
    let model = model();
    let mut context = context(&model);
    context.execute(&begin(0, None)).expect("a prompt");
    context.execute(&StepPlan { moves: vec![keep()], ..go_on() }).expect("is kept");
    // Behind the ledger's back.
    context.llama.kv_cache_seq_rm(0, Some(1), Some(2)).expect("llama.cpp makes holes");
    context.llama.kv_cache_seq_rm(0, Some(0), Some(1)).expect("llama.cpp makes holes");
    let Context { layout, llama, .. } = &mut context;
    let before = layout.kept_bytes();
    let kept = layout.keep(llama, Slot(0), Owner(0), 4);
    let hole = LayoutError::Hole { sequence: 0, first: 2, last: 4, tokens: 4 };
    assert_eq!((kept, layout.kept_bytes()), (Err(hole), before));
    let missing = layout.begin(llama, Slot(1), Some(Reuse { owner: Owner(0), tokens: 1 }));
    assert_eq!(missing, Err(LayoutError::Missing(Owner(0))));
}

#[test]
fn a_gap_is_closed_and_who_was_moved_goes_on() {
    let model = model();
    let mut context = context_of(&model, 4);
    (0..4).for_each(|slot| _ = context.execute(&begin(slot, None)).expect("a prompt"));
    let mut tokens = [Token(5); 2];
    for position in 4..12 {
        let decode = |slot, token| Decode { slot: Slot(slot), id: ID, token, position };
        let left = [1, 2].map(|slot| Move::Leave { slot: Slot(slot) });
        let step = StepPlan {
            moves: if position == 4 { left.into() } else { Vec::new() },
            decodes: vec![decode(3, tokens[0]), decode(0, tokens[1])],
            ..StepPlan::default()
        };
        let outcome = context.execute(&step).expect("a step");
        assert_eq!([3, 0].map(|slot| context.layout.sequence(Slot(slot))), [1, 0]);
        tokens = [0, 1].map(|at| outcome.sampled[at].token);
        assert_eq!(tokens[0], tokens[1], "they have the same past");
    }
    context.execute(&begin(2, None)).expect("a prompt");
    assert_eq!(context.layout.sequence(Slot(2)), 2);
}

#[test]
fn a_newcomer_without_a_token_can_be_moved_too() {
    let model = model();
    let mut context = context_of(&model, 9);
    let first = (0..9).map(|slot| context.execute(&begin(slot, None)).expect("a prompt"));
    let token = first.last().expect("there are nine").sampled[0].token;
    // Streams 0, 1 and 5 to 8 are left, and the newcomer is in 1.
    let left = (1..5).map(|slot| Move::Leave { slot: Slot(slot) }).collect();
    let outcome = context.execute(&StepPlan { moves: left, ..begin(1, None) }).expect("a step");
    assert_eq!(outcome.sampled[0].token, token, "they have the same past");
    let mut streams = [0, 1, 5, 6, 7, 8].map(|slot| context.layout.sequence(Slot(slot)));
    streams.sort_unstable();
    assert_eq!(streams, [3, 4, 5, 6, 7, 8]);
}

#[test]
fn more_sequences_than_rows_are_no_end_of_the_process() {
    let model = model();
    let layout = LayoutKind::Unified { cells: 512 };
    let options =
        Options { slots: 2, context_tokens: 256, batch_tokens: 2, threads: 1, owners: 40, layout };
    let mut context = model.context(&options).expect("fits into memory");
    assert_eq!(context.batch_tokens(), 2);
    let prompt = begin(0, None);
    assert!(matches!(context.execute(&prompt), Err(EngineError::Unfit(_))), "four rows");
}
