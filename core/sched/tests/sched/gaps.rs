//! Gaps between the tokens of an answer, beside prompts.

use std::collections::BTreeMap;

use expect_test::expect;
use proptest::{prelude::*, sample::select};
use sched::{Command, Event, Limits, Order, Rules, StepCost, StepShape};
use units::{BlockCount, Micros, RequestId, Span, Token};

use crate::{
    rig::{Luck, Rig, Setup, request},
    script::{KEEPING, LIMITS, PLAIN, check_with, under},
    trace::text,
};

/// Exact in microseconds, so that predictions are.
const COST: StepCost = StepCost {
    base_us: 4_000.0,
    per_decode_us: 4_000.0,
    per_prefill_token_us: 2_000.0,
    per_cell_us: 0.0,
    ..StepCost::GUESS
};
const SLOTS: u32 = 4;
const CHUNK_MIN: u32 = 16;

fn setup(itl: Option<Span>, order: Order) -> Setup {
    let limits = Limits {
        slots: SLOTS,
        context_tokens: 1_024,
        batch_tokens: 512,
        prefill_tokens: 512,
        step: Span::from_millis(500),
        waiting: 64,
        unleased: 64,
        kv_blocks: BlockCount(400),
        rules: Rules { itl, order, ..Rules::default() },
    };
    Setup { limits, cost: COST, ..KEEPING }
}

/// What a run showed.
#[derive(Debug, Default)]
struct Seen {
    /// The longest gap between two tokens of an answer.
    gap: Span,
    /// The most prompt tokens of a step that exceeded the target beside an answer.
    spared: u32,
    /// Numbers of such steps that had more than one prompt token.
    steps: Vec<u64>,
    last: BTreeMap<RequestId, Micros>,
}

impl Seen {
    fn step(&mut self, rig: &mut Rig, itl: Span) -> bool {
        let Some((plan, events)) = rig.step(Luck::Good) else { return false };
        let StepShape { decodes, prefill, .. } = plan.shape;
        if decodes > 0 && prefill > 0 && plan.predicted > itl {
            self.spared = self.spared.max(prefill);
            self.steps.extend((prefill > 1).then_some(plan.number));
        }
        for event in &events {
            if let Event::Token { id, .. } = event
                && let Some(before) = self.last.insert(*id, rig.now)
            {
                self.gap = self.gap.max(rig.now.since(before));
            }
        }
        true
    }
}

/// A request: when it comes, after so many steps; its prompt; its cap.
type Arrival = (u8, Vec<Token>, u32);

/// All come, in their order, and run to their end.
fn run(setup: &Setup, arrivals: Vec<Arrival>) -> Seen {
    let mut rig = Rig::new(setup);
    let mut seen = Seen::default();
    let itl = setup.limits.rules.itl.unwrap_or(Span(u64::MAX));
    for (id, (steps, prompt, cap)) in (0..).zip(arrivals) {
        for _ in 0..steps {
            seen.step(&mut rig, itl);
        }
        rig.command(Command::Submit(request(id, rig.now, prompt, cap)));
    }
    for _ in 0..20_000 {
        if !seen.step(&mut rig, itl) && !rig.sleep() {
            assert!(rig.open.is_empty(), "never ended: {:?}", rig.open);
            return seen;
        }
    }
    panic!("stuck with {:?}", rig.scheduler.snapshot(rig.now));
}

/// Some prompts begin alike, so that some wait for others to compute what they share.
fn arrivals() -> impl Strategy<Value = Vec<Arrival>> {
    let prompt =
        (0u32..3, 0u32..200, 1u32..500, 0u32..1_000).prop_map(|(name, shared, own, id)| {
            text(name, shared).chain(text(100 + id, own)).collect()
        });
    prop::collection::vec((0u8..6, prompt, 1u32..60), 1..24)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// A target can be kept when it holds an answer in every slot but one and the smallest chunk.
    #[test]
    fn gaps_keep_a_target_that_can_be_kept(
        arrivals in arrivals(),
        beyond in 0u64..120,
        order in select(vec![Order::DecodeFirst, Order::PrefillFirst]),
    ) {
        let fullest = StepShape { decodes: SLOTS, prefill: CHUNK_MIN, ..StepShape::default() };
        let itl = COST.predict(fullest) + Span::from_millis(beyond);
        let seen = run(&setup(Some(itl), order), arrivals);
        prop_assert!(seen.gap <= itl, "SC-13: a gap of {} over a target of {itl}", seen.gap);
    }

    /// A target that cannot be kept stops nobody, and costs no more than the smallest chunk in its turn.
    #[test]
    fn a_target_that_cannot_be_kept_stops_no_prompt(
        arrivals in arrivals(),
        micros in 1u64..20_000,
        order in select(vec![Order::DecodeFirst, Order::PrefillFirst]),
    ) {
        let seen = run(&setup(Some(Span(micros)), order), arrivals);
        prop_assert!(seen.spared <= CHUNK_MIN, "SC-13: {} prompt tokens", seen.spared);
        let turn = |step: &u64| order == Order::PrefillFirst || step.is_multiple_of(8);
        prop_assert!(seen.steps.iter().all(turn), "SC-13: {:?}", seen.steps);
    }
}

/// What the property above would not see if nothing were ever exceeded.
#[test]
fn without_a_target_gaps_are_as_long_as_steps() {
    let arrivals = vec![(0, text(1, 20).collect(), 40), (3, text(2, 400).collect(), 4)];
    let gap = |itl| run(&setup(itl, Order::DecodeFirst), arrivals.clone()).gap;
    assert_eq!(gap(None), Span::from_millis(500));
    assert_eq!(gap(Some(Span::from_millis(100))), Span::from_millis(100));
}

#[test]
fn a_prompt_beside_answers_without_end_has_its_first_token_in_bounded_steps() {
    let setup = setup(Some(Span::from_millis(1)), Order::DecodeFirst);
    let mut rig = Rig::new(&setup);
    for id in 0..3 {
        rig.command(Command::Submit(request(id, rig.now, text(9, 8).collect(), 900)));
        rig.step(Luck::Good);
    }
    rig.command(Command::Submit(request(3, rig.now, text(10, 320).collect(), 4)));
    let before = rig.scheduler.snapshot(rig.now).step;
    while rig.said[&RequestId(3)].is_empty() {
        rig.step(Luck::Good);
    }
    let steps = rig.scheduler.snapshot(rig.now).step - before;
    assert!(steps <= 8 * 320 / 16 + 8, "{steps} steps");
}

#[test]
fn chunks_shrink_beside_answers() {
    let limits = Limits { step: Span::from_millis(100), ..LIMITS };
    let setup = under(&Setup { limits, ..PLAIN }, |rules| rules.itl = Some(Span::from_millis(40)));
    check_with(
        &setup,
        "a 8+4; run 1; b 90+2; run",
        &expect![[r#"
            1. a:0..8 (18 ms)
            2. a+1 b:0..20 (40 ms)
            3. a+1 b:20..40 (40 ms)
            4. a+1 b:40..60 (40 ms)
                a ends: Length after 4
            5. b:60..90 (40 ms)
            6. b+1 (20 ms)
                b ends: Length after 2
        "#]],
    );
}
