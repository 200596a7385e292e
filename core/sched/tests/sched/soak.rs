//! A long time with little room.

use kv::Layout;
use rand::{RngExt, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use sched::{
    Command, Event, FinishReason, Lateness, Limits, Reservation, Rules, StepCost, Submission, Tier,
};
use units::{BlockCount, Micros, RequestId, Span};

use crate::{
    rig::{Luck, Rig, STREAMS, Setup, request},
    script::KEEPING,
    trace::text,
};

const REQUESTS: u128 = 2_000;

fn cramped(layout: Layout) -> Setup {
    let rules = Rules {
        reservation: Reservation::Grow,
        lateness: Lateness::AbortBestEffort,
        ..Rules::default()
    };
    let limits = Limits {
        slots: 6,
        context_tokens: 512,
        batch_tokens: 128,
        prefill_tokens: 96,
        step: Span::from_millis(250),
        waiting: 40,
        unleased: 8,
        kv_blocks: BlockCount(48),
        rules,
    };
    Setup { limits, layout, cost: StepCost::GUESS, owners: 12, ..KEEPING }
}

/// Between two looks at the clock, a few users come and a few leave.
fn crowd(rig: &mut Rig, rng: &mut impl RngExt, next: &mut u128) {
    while *next < REQUESTS && rng.random_bool(0.12) {
        let begins = text(rng.random_range(0..6), rng.random_range(0..120));
        let own = text(1_000 + u32::try_from(*next).expect("few"), rng.random_range(1..60));
        let prompt = begins.chain(own).collect();
        let promised = rng.random_bool(0.4);
        let budget = Span::from_millis(rng.random_range(50..20_000));
        let submission = Submission {
            tier: if promised { Tier::Promised } else { Tier::BestEffort },
            epoch: rng.random_bool(0.9).then_some(1),
            deadline: rng.random_bool(0.7).then_some(rig.now + budget),
            evict: vec![RequestId(rng.random_range(0..*next + 1))],
            ..request(*next, rig.now, prompt, rng.random_range(1..100))
        };
        rig.command(Command::Submit(submission));
        *next += 1;
    }
    if rng.random_bool(0.03) {
        let id = RequestId(rng.random_range(0..*next + 1));
        rig.command(Command::Cancel(id));
    }
}

/// Asserts that nobody waits in a machine that does nothing: somebody hears something every 10 seconds.
fn soak(setup: &Setup, seed: u64) -> Rig {
    let mut rig = Rig::new(setup);
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let (mut next, mut heard): (u128, Micros) = (0, Micros(0));
    while next < REQUESTS || !rig.open.is_empty() {
        crowd(&mut rig, &mut rng, &mut next);
        match rig.step(Luck::Good) {
            Some((_, events)) if events.iter().any(is_news) => heard = rig.now,
            Some(_) => {}
            None if rig.open.is_empty() => {
                rig.now += Span::from_millis(10);
                heard = rig.now;
            }
            None => assert!(rig.sleep(), "stuck: {:?}", rig.open),
        }
        assert!(rig.now.since(heard) < Span::from_secs(10), "nobody heard anything");
    }
    rig
}

fn is_news(event: &Event) -> bool {
    matches!(event, Event::Token { .. } | Event::Finished { .. })
}

#[test]
fn a_crowd_in_little_room_comes_to_its_ends() {
    for (layout, seed) in [(Layout::Unified, 11), (STREAMS, 12)] {
        let setup = cramped(layout);
        let rig = soak(&setup, seed);
        let idle = rig.scheduler.snapshot(rig.now);
        let (ends, refused) = (rig.ended.len(), rig.refused);
        assert_eq!(ends + refused, REQUESTS as usize);
        assert_eq!(idle.kv.held, BlockCount(0));
        assert_eq!(idle.kv.free + idle.kv.reclaimable, setup.limits.kv_blocks);
        assert!(idle.sequences.is_empty());
        let count = |wanted: &FinishReason| {
            rig.ended.values().filter(|(reason, ..)| reason == wanted).count()
        };
        let finished = count(&FinishReason::Length);
        println!("{layout:?} {:?} {:?}", idle.counters, idle.cache);
        println!(
            "{finished} finished, {} cancelled, {refused} refused",
            count(&FinishReason::Cancelled)
        );
        assert!(finished > 500 && count(&FinishReason::Cancelled) > 20, "it was not mixed");
        let counters = idle.counters;
        assert!(counters.preempted_by_pressure > 0 && counters.preempted_by_promise > 0);
        assert!(counters.demoted > 0 && counters.aborted_best_effort > 0);
        assert!(idle.cache.evictions > 0 && idle.cache.tokens_found > 0);
    }
}
