//! Whatever an engine says, decisions are finite, and nothing is promised that cannot be foreseen.

use std::sync::Arc;

use admit::{
    Attempt, Bend, Budget, Candidate, Controller, EngineId, EngineLimits, Event, KvUsage, Offer,
    Phase, Policy, Record, Sequence, Snapshot, Source, Step, StepCost, Tier, Twin, Verdict,
};
use proptest::{collection::vec, prelude::*};
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;
use units::{BlockCount, Micros, RequestId, Span, TokenCount};

use crate::plant::{limits, settings};

const NOW: Micros = Micros(10_000_000);

fn number() -> impl Strategy<Value = u32> {
    prop_oneof![4 => 0_u32..2_000, 1 => Just(u32::MAX), 1 => Just(1 << 24), 1 => any::<u32>()]
}

fn cost() -> impl Strategy<Value = f64> {
    let odd = [f64::NAN, f64::INFINITY, -1.0, 0.0, f64::MIN_POSITIVE, 1e300];
    prop_oneof![4 => 0.1_f64..9_000.0, 1 => proptest::sample::select(odd.to_vec())]
}

fn sequence() -> impl Strategy<Value = Sequence> {
    let sizes = (number(), number(), number(), number(), number());
    let phase = prop_oneof![Just(Phase::Waiting), Just(Phase::Prefill), Just(Phase::Decode)];
    (0_u128..9, phase, any::<bool>(), sizes, proptest::option::of(any::<u64>()), any::<u64>())
        .prop_map(|(id, phase, promised, sizes, deadline, submitted_at)| Sequence {
            id: RequestId(id),
            phase,
            tier: if promised { Tier::Promised } else { Tier::BestEffort },
            leased: true,
            prompt: TokenCount(sizes.0),
            computed: TokenCount(sizes.1),
            generated: TokenCount(sizes.2),
            max_tokens: TokenCount(sizes.3),
            deadline: deadline.map(Micros),
            submitted_at: Micros(submitted_at),
            blocks: BlockCount(sizes.4),
            rests_until: None,
        })
}

fn snapshot() -> impl Strategy<Value = Snapshot> {
    let sizes = vec(number(), 6);
    (sizes, vec(cost(), 6), vec(sequence(), 0..9), 0_u64..20_000_000).prop_map(
        |(sizes, costs, sequences, taken_at)| Snapshot {
            instance: "e1".into(),
            taken_at: Micros(taken_at),
            step: 1,
            record: 0,
            planner: admit::PLANNER_VERSION.into(),
            limits: EngineLimits {
                slots: sizes[0],
                context: TokenCount(sizes[1].max(1)),
                batch: TokenCount(sizes[2]),
                prefill: TokenCount(sizes[3]),
                step: Span::from_millis(500),
                waiting: 9,
                kv: BlockCount(sizes[4].max(1)),
            },
            rules: Some(limits().rules),
            cost: StepCost {
                base: costs[0],
                per_decode: costs[1],
                per_prefill_token: costs[2],
                per_cell: costs[3],
                gain: costs[4],
                per_tiled_cell: costs[5],
                prompt: 0.0,
                bend: Bend::NONE,
            },
            kv: KvUsage { free: BlockCount(sizes[5]), ..KvUsage::default() },
            sequences,
            draining: false,
        },
    )
}

fn offer(id: u128, prompt: u32, cap: u32, budget: u64) -> Offer {
    Offer {
        attempt: Attempt { id: RequestId(id), number: 0 },
        candidates: vec![Candidate {
            source: Source::Watched("e1".into()),
            cached: TokenCount(0),
            answers: Vec::new(),
        }],
        prompt: TokenCount(prompt.max(1)),
        max_tokens: TokenCount(cap.max(1)),
        budget: Budget { e2e: Some(Span(budget)), ttft: None },
        patience: Some(Span::ZERO),
        accept_best_effort: false,
        tenant: "".into(),
        priority: 0,
        unix: Micros(0),
    }
}

fn decided(controller: &mut Controller, offer: Offer) -> Verdict {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let verdict = controller.offer(NOW, offer, &mut rng).expect("it does not wait");
    controller.check();
    verdict
}

fn good() -> Snapshot {
    let limits = limits();
    Snapshot {
        instance: "e1".into(),
        taken_at: NOW,
        step: 1,
        record: 0,
        planner: admit::PLANNER_VERSION.into(),
        limits: EngineLimits {
            slots: limits.slots,
            context: TokenCount(limits.context_tokens),
            batch: TokenCount(limits.batch_tokens),
            prefill: TokenCount(limits.prefill_tokens),
            step: limits.step,
            waiting: limits.waiting,
            kv: limits.kv_blocks,
        },
        rules: Some(limits.rules),
        cost: sched::StepCost::GUESS.into(),
        kv: KvUsage { free: limits.kv_blocks, ..KvUsage::default() },
        sequences: Vec::new(),
        draining: false,
    }
}

fn watching(policy: Twin, state: Snapshot) -> Controller {
    let mut controller = Controller::new(settings(Policy::Twin(policy)));
    controller.attached(NOW, EngineId(0), 1, &Arc::from("e1"), Some(state));
    controller
}

fn is_promised(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Admitted(admitted) if admitted.tier == Tier::Promised)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn garbled_engines_get_finite_decisions(
        state in snapshot(),
        asked in vec((number(), number(), any::<u64>()), 1..4),
        steps in vec((any::<u64>(), any::<u32>(), any::<u32>(), any::<u64>()), 0..20),
    ) {
        for policy in [Twin::CAPS, Twin::FULL] {
            let mut controller = watching(policy, state.clone());
            for (at, (took, decodes, prefill, cells)) in steps.iter().enumerate() {
                let (decodes, prefill) = (TokenCount(*decodes), TokenCount(*prefill));
                let (took, cells) = (Span(*took), *cells);
                let step = Step { took, decodes, prefill, cells, prefill_cells: cells };
                let record = Record { number: at as u64 + 1, event: Event::Step(step) };
                controller.record(NOW, EngineId(0), record);
            }
            for (at, (prompt, cap, budget)) in asked.iter().enumerate() {
                decided(&mut controller, offer(100 + at as u128, *prompt, *cap, *budget));
            }
            let view = controller.view(NOW);
            let finite = |speed: &admit::Speed| {
                speed.gain.is_finite() && speed.residual_high.is_finite()
            };
            prop_assert!(view.engines.iter().all(|it| it.speed.as_ref().is_none_or(finite)));
        }
    }
}

/// AD-10: nothing is promised on a state that is old, by unknown rules, or of costs that are none.
#[test]
fn nothing_is_promised_in_the_dark() {
    let ask = || offer(1, 60, 40, 4_000_000);
    assert!(is_promised(&decided(&mut watching(Twin::CAPS, good()), ask())));
    let other = sched::Discipline::Static { batch: 4, wait: Span::ZERO };
    let rules = sched::Rules { discipline: other, ..limits().rules };
    let cost = StepCost { per_decode: f64::NAN, ..good().cost };
    for dark in [
        Snapshot { planner: "another".into(), ..good() },
        Snapshot { rules: None, ..good() },
        Snapshot { rules: Some(rules), ..good() },
        Snapshot { cost, ..good() },
        Snapshot { taken_at: Micros(1), ..good() },
    ] {
        for policy in [Twin::CAPS, Twin::SCENARIOS, Twin::FULL] {
            let verdict = decided(&mut watching(policy, dark.clone()), ask());
            assert!(!is_promised(&verdict), "{dark:?}: {verdict:?}");
        }
    }
    let mut interrupted = watching(Twin::FULL, good());
    interrupted.interrupted(EngineId(0));
    assert!(!is_promised(&decided(&mut interrupted, ask())));
}
