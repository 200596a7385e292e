//! Random commands against every configuration: every request ends exactly once with the answer that it
//! would get alone, nothing leaks, nothing stalls.

use std::collections::BTreeMap;

use kv::{Kind, Layout};
use proptest::{prelude::*, sample::select, strategy::ValueTree as _, test_runner::TestRunner};
use sched::{
    Command, Discipline, Lateness, Limits, Order, Reservation, Rules, StepCost, Submission, Tier,
};
use units::{RequestId, Span, Token};

use crate::{
    rig::{Luck, Rig, STREAMS, Setup, blocks, request},
    trace::text,
};

#[derive(Clone, Debug)]
enum Action {
    Submit {
        id: u8,
        prompt: Vec<Token>,
        cap: u8,
        promised: bool,
        leased: bool,
        budget: Option<u16>,
        evict: u8,
    },
    Cancel(u8),
    Touch(Vec<Token>),
    Step(Luck),
    Wait(u16),
}

/// Three texts, of which a prompt has a beginning, and then something of its own. Some are whole blocks,
/// so that the same prompt comes again.
fn prompts() -> impl Strategy<Value = Vec<Token>> {
    let begins = prop_oneof![1 => (1u32..5).prop_map(|blocks| blocks * 16), 2 => 1u32..70];
    let own = prop_oneof![2 => Just(0u32), 3 => 1u32..20];
    (0u32..3, begins, own, 0u32..12)
        .prop_map(|(name, begins, own, id)| text(name, begins).chain(text(100 + id, own)).collect())
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let tier_and_lease = (prop::bool::weighted(0.35), any::<bool>());
    let facts = (tier_and_lease, prop::option::weighted(0.35, 0u16..900), 0u8..24);
    let submit = (0u8..12, prompts(), 1u8..60, facts).prop_map(
        |(id, prompt, cap, ((promised, leased), budget, evict))| Action::Submit {
            id,
            prompt,
            cap,
            promised,
            leased,
            budget,
            evict,
        },
    );
    let action = prop_oneof![
        6 => submit,
        1 => (0u8..12).prop_map(Action::Cancel),
        1 => prompts().prop_map(Action::Touch),
        12 => Just(Action::Step(Luck::Good)),
        1 => select(vec![Luck::Fails, Luck::Refused, Luck::Loses]).prop_map(Action::Step),
        1 => (0u16..300).prop_map(Action::Wait),
    ];
    prop::collection::vec(action, 0..120)
}

fn rules() -> impl Strategy<Value = Rules> {
    let batch = Discipline::Static { batch: 3, wait: Span::from_millis(30) };
    let continuous = Discipline::Continuous;
    (
        select(vec![Discipline::Fifo, batch, continuous, continuous, continuous]),
        select(vec![Order::DecodeFirst, Order::PrefillFirst]),
        select(vec![Reservation::Full, Reservation::Grow, Reservation::Grow]),
        select(vec![None, None, Some(30)]),
        select(vec![Lateness::Finish, Lateness::AbortBestEffort, Lateness::AbortAll]),
        select(vec![None, Some(Span::from_millis(5)), Some(Span::from_millis(60))]),
    )
        .prop_map(|(discipline, order, reservation, output_cap, lateness, itl)| Rules {
            discipline,
            order,
            reservation,
            output_cap,
            lateness,
            itl,
        })
}

fn setups() -> impl Strategy<Value = Setup> {
    let small = Layout::Streams { token_bytes: 100, bytes_max: 9_000 };
    (
        rules(),
        select(vec![Kind::Paged, Kind::Paged, Kind::Naive, Kind::Contiguous]),
        select(vec![Layout::Unified, STREAMS, small]),
        0u32..5,
        prop::bool::weighted(0.8),
        9u32..18,
        select(vec![0u32, 25]),
    )
        .prop_map(|(rules, kind, layout, owners, prefixes, pool, answer)| Setup {
            limits: limits(rules, pool),
            cost: StepCost::GUESS,
            kind,
            layout,
            owners,
            prefixes,
            answer,
        })
}

fn limits(rules: Rules, pool: u32) -> Limits {
    Limits {
        slots: 4,
        context_tokens: 160,
        batch_tokens: 64,
        prefill_tokens: 48,
        step: Span::from_millis(120),
        waiting: 6,
        unleased: 4,
        kv_blocks: blocks(pool),
        rules,
    }
}

fn act(rig: &mut Rig, action: Action) {
    match action {
        Action::Submit { id, prompt, cap, promised, leased, budget, evict } => {
            let submission = Submission {
                tier: if promised { Tier::Promised } else { Tier::BestEffort },
                epoch: leased.then_some(1),
                deadline: budget.map(|budget| rig.now + Span::from_millis(budget.into())),
                evict: vec![RequestId(evict.into())],
                ..request(id.into(), rig.now, prompt, cap.into())
            };
            if !rig.said.contains_key(&submission.id) {
                rig.command(Command::Submit(submission));
            }
        }
        Action::Cancel(id) => drop(rig.command(Command::Cancel(RequestId(id.into())))),
        Action::Touch(prompt) => drop(rig.command(Command::Touch(prompt.into()))),
        Action::Step(luck) => drop(rig.step(luck)),
        Action::Wait(millis) => rig.now += Span::from_millis(millis.into()),
    }
}

/// A storm, and calm until all have ended.
fn storm(setup: &Setup, actions: Vec<Action>) -> Rig {
    let mut rig = Rig::new(setup);
    for action in actions {
        act(&mut rig, action);
    }
    rig.run(3_000);
    assert!(rig.open.is_empty(), "SC-8: never ended: {:?}", rig.open);
    let idle = rig.scheduler.snapshot(rig.now);
    assert_eq!(idle.kv.held, blocks(0));
    assert_eq!(idle.kv.free + idle.kv.reclaimable, setup.limits.kv_blocks);
    assert!(idle.sequences.is_empty());
    rig
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn every_request_ends_once_and_nothing_leaks(setup in setups(), actions in actions()) {
        storm(&setup, actions);
    }
}

/// A storm that never meets what it is to break proves nothing.
#[test]
fn storms_reach_what_they_are_for() {
    const STORMS: u32 = 300;
    let mut reached = BTreeMap::<&str, u32>::new();
    let mut runner = TestRunner::deterministic();
    for _ in 0..STORMS {
        let tree = (setups(), actions()).new_tree(&mut runner).expect("a storm");
        let (setup, actions) = tree.current();
        let rig = storm(&setup, actions);
        let sched::Snapshot { counters, cache, .. } = rig.scheduler.snapshot(rig.now);
        let counts = [
            ("hit", cache.tokens_found),
            ("copy", cache.copies),
            ("split", cache.splits),
            ("eviction", cache.evictions),
            ("pressure", counters.preempted_by_pressure),
            ("promise", counters.preempted_by_promise),
            ("order", counters.evicted_by_order),
            ("late best effort", counters.aborted_best_effort),
            ("late promise", counters.aborted_promised),
            ("broken promise", counters.demoted),
            ("forgotten", counters.forgotten),
        ];
        for (what, count) in counts {
            *reached.entry(what).or_default() += u32::from(count > 0);
        }
    }
    println!("of {STORMS} storms: {reached:?}");
    let rare = reached.iter().filter(|(_, storms)| **storms < STORMS / 100);
    assert_eq!(rare.count(), 0, "{reached:?}");
}
