//! With a second model, one of whose layers have a sliding window: `CADENCE_TEST_WINDOW_MODEL`.

use std::path::Path;

use llama_cpp_2::{context::LlamaContext, llama_batch::LlamaBatch, token::LlamaToken};
use sched::{Engine as _, EngineError, Move, StepPlan};
use units::{Owner, Slot};

use super::*;
use crate::{LayoutKind, Model, Options};

const OPTIONS: Options = Options {
    slots: 2,
    context_tokens: 2048,
    batch_tokens: 512,
    threads: 2,
    owners: 2,
    layout: LayoutKind::Streams,
};

/// More than the window of 512 tokens, and a prefix that is shorter.
const TOKENS: u32 = 700;
const REUSED: u32 = 400;

fn model() -> Model {
    let path = std::env::var_os("CADENCE_TEST_WINDOW_MODEL");
    let path = path.expect("CADENCE_TEST_WINDOW_MODEL names a model with sliding windows");
    Model::open(Path::new(&path), 0).expect("opens")
}

/// Computes positions `from..to` of sequence 0.
fn compute(llama: &mut LlamaContext<'_>, from: u32, to: u32) {
    let positions: Vec<u32> = (from..to).collect();
    for piece in positions.chunks(512) {
        let mut batch = LlamaBatch::new(512, 1);
        for &position in piece {
            let token = LlamaToken(1000 + (position % 97).cast_signed());
            batch.add(token, position.cast_signed(), &[0], position + 1 == to).expect("fits");
        }
        llama.decode(&mut batch).expect("computes");
    }
}

fn last_logits(llama: &LlamaContext<'_>, row: u32) -> Vec<f32> {
    llama.get_logits_ith(row.cast_signed()).to_vec()
}

#[test]
#[ignore = "needs a second model"]
fn a_model_with_sliding_windows_is_not_reusable_and_is_served_without_a_cache() {
    let model = model();
    assert!(!model.facts().reusable);
    let mut context = model.context(&OPTIONS).expect("is made all the same");
    let keep = Move::Keep { slot: Slot(0), owner: Owner(0), tokens: 1 };
    let plan = StepPlan { moves: vec![keep], ..StepPlan::default() };
    assert!(matches!(context.execute(&plan), Err(EngineError::Unfit(_))));
}

/// Why: nothing fails, and the answer is another. The day this test fails, such models can be reused.
#[test]
#[ignore = "needs a second model"]
fn a_window_forgets_what_a_shorter_prefix_needs() {
    let model = model();
    let shape = OPTIONS.shape().expect("in range");
    let mut llama = model.llama().new_context(backend::get(), OPTIONS.params(shape)).expect("fits");
    compute(&mut llama, 0, REUSED + 10);
    let fresh = last_logits(&llama, 9 + REUSED);
    llama.clear_kv_cache();

    compute(&mut llama, 0, TOKENS);
    let state = llama.state_seq_get(0, LlamaStateSeqFlags::empty()).expect("is saved");
    llama.kv_cache_seq_rm(0, None, None).expect("is cleared");
    llama.state_seq_set(&state, 0).expect("is restored");
    llama.kv_cache_seq_rm(0, Some(REUSED), None).expect("is cut");
    assert_ne!(llama.kv_cache_seq_pos_min(0), 0, "the window of a longer prefix begins later");
    compute(&mut llama, REUSED, REUSED + 10);
    let reused = last_logits(&llama, 9);
    let widest = fresh.iter().zip(&reused).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(widest > 1.0, "{widest}");
}
