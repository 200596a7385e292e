//! What is asked.

use proptest::{collection::vec, prelude::*};
use units::{Micros, Span};

/// One request, and how long its answer would be without a cap.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask {
    pub(crate) at: Micros,
    pub(crate) prompt: u32,
    pub(crate) cap: u32,
    pub(crate) answer: u32,
    pub(crate) budget: Span,
    pub(crate) patience: Span,
    pub(crate) best_effort: bool,
}

/// One request that is alone in the world.
pub(crate) const ONE: Ask = Ask {
    at: Micros(0),
    prompt: 60,
    cap: 40,
    answer: 40,
    budget: Span::from_secs(4),
    patience: Span::ZERO,
    best_effort: false,
};

/// A crowd that asks for far more than there is.
pub(crate) fn crowd() -> impl Strategy<Value = Vec<Ask>> {
    let times = (0_u64..8_000_000, 200_u64..5_000, prop_oneof![Just(0_u64), 1_u64..1_500]);
    let one = (times, 1_u32..150, 1_u32..120, 1_u32..120, any::<bool>());
    let ask = |((at, budget, patience), prompt, cap, answer, best_effort)| Ask {
        at: Micros(at),
        prompt,
        cap,
        answer,
        budget: Span::from_millis(budget),
        patience: Span::from_millis(patience),
        best_effort,
    };
    vec(one.prop_map(ask), 10..60)
}

/// The same crowd in which every answer goes to its cap.
pub(crate) fn to_the_cap(crowd: &[Ask]) -> Vec<Ask> {
    crowd.iter().map(|ask| Ask { answer: ask.cap, ..*ask }).collect()
}
