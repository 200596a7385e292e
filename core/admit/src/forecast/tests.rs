//! The simulation against the planner and the scheduler that it foresees.

use kv::{Kind, Layout, Options};
use proptest::{collection::vec, prelude::*};
use sample::Sampling;
use sched::{
    Answers, Bend, Command, Engine as _, Event, Lateness, Limits, MockEngine, Order, PlanKey,
    Rules, Running, Scheduler, StepCost, StepProblem, Submission, Tier, Waiting,
};
use units::{BlockCount, Micros, RequestId, Span, Token};

use super::{
    Fate, Run, Seq, State, StepTimes,
    plan::{Room, Step},
    run::Fixed,
};

#[derive(Clone, Debug)]
struct Engine {
    limits: Limits,
    cost: StepCost,
}

fn engine() -> impl Strategy<Value = Engine> {
    let rules = (
        prop_oneof![Just(Order::DecodeFirst), Just(Order::PrefillFirst)],
        proptest::option::of(prop_oneof![Just(5_u64), Just(40), Just(120)]),
        prop_oneof![
            Just(Lateness::Finish),
            Just(Lateness::AbortBestEffort),
            Just(Lateness::AbortAll)
        ],
    );
    let sizes = (1_u32..6, 6_u32..80, 1_u32..60, 12_u32..200, 20_u64..300);
    // Whole microseconds, so that sums in another order are the same.
    let cost = (1_u32..8, 0_u32..8, 1_u32..5, 0_u32..2, any::<bool>());
    (rules, sizes, cost).prop_map(|((order, itl, lateness), sizes, cost)| {
        let (slots, batch, prefill, blocks, step) = sizes;
        let (base, decode, token, cell, bends) = cost;
        Engine {
            limits: Limits {
                slots,
                context_tokens: 400,
                batch_tokens: batch,
                prefill_tokens: prefill.min(batch),
                step: Span::from_millis(step),
                waiting: 64,
                unleased: 64,
                kv_blocks: BlockCount(blocks),
                rules: Rules {
                    order,
                    lateness,
                    itl: itl.map(Span::from_millis),
                    ..Rules::default()
                },
            },
            cost: StepCost {
                base_us: f64::from(base) * 1_000.0,
                per_decode_us: f64::from(decode) * 1_000.0,
                per_prefill_token_us: f64::from(token) * 500.0,
                per_cell_us: f64::from(cell) * 2.0,
                per_tiled_cell_us: f64::from(cell),
                bend: if bends { Bend::new(&[0.0, -0.0, 500.0, 900.0]) } else { Bend::NONE },
                ..StepCost::GUESS
            },
        }
    })
}

#[derive(Clone, Copy, Debug)]
struct Request {
    at_ms: u64,
    prompt: u32,
    cap: u32,
    promised: bool,
    budget_ms: Option<u64>,
}

fn requests() -> impl Strategy<Value = Vec<Request>> {
    let one =
        (0_u64..400, 1_u32..120, 1_u32..40, any::<bool>(), proptest::option::of(50_u64..4_000));
    vec(one, 1..14).prop_map(|all| {
        let request = |(at_ms, prompt, cap, promised, budget_ms)| Request {
            at_ms,
            prompt,
            cap,
            promised,
            budget_ms,
        };
        all.into_iter().map(request).collect()
    })
}

fn blocks(request: &Request) -> BlockCount {
    units::TokenCount(request.prompt + request.cap).blocks()
}

fn tier(request: &Request) -> Tier {
    if request.promised { Tier::Promised } else { Tier::BestEffort }
}

/// When each ends in the real scheduler over the mock, that takes exactly as long as is predicted.
fn really(engine: &Engine, requests: &[Request]) -> Vec<Fate> {
    let options = Options {
        blocks: engine.limits.kv_blocks,
        layout: Layout::Streams { token_bytes: 1, bytes_max: 0 },
        owners: 0,
        prefixes: false,
    };
    let mut scheduler = Scheduler::new(engine.limits, engine.cost, Kind::Paged.build(options));
    let answers = Answers { words: 10..20, end: Token(1), tokens: 0 };
    let mut mock = MockEngine::new(engine.limits.slots, engine.cost, answers);
    let mut fates = vec![Fate::NEVER; requests.len()];
    let mut order: Vec<usize> = (0..requests.len()).collect();
    order.sort_by_key(|at| requests[*at].at_ms);
    let mut coming = order.into_iter().peekable();
    let mut now = Micros(0);
    loop {
        while let Some(at) = coming.next_if(|at| requests[*at].at_ms * 1_000 <= now.0) {
            scheduler.on_command(now, Command::Submit(submission(at, &requests[at])));
        }
        let plan = scheduler.plan_step(now);
        if plan.is_empty() {
            let next = coming.peek().map(|at| Micros(requests[*at].at_ms * 1_000));
            match next.into_iter().chain(scheduler.next_deadline()).min() {
                Some(next) => now = now.max(next),
                None => return fates,
            }
            listen(now, &mut scheduler, &mut fates);
            continue;
        }
        let outcome = mock.execute(&plan).expect("a plan fits");
        now += outcome.took;
        scheduler.commit_step(now, plan, Ok(outcome));
        listen(now, &mut scheduler, &mut fates);
    }
}

fn listen(now: Micros, scheduler: &mut Scheduler, fates: &mut [Fate]) {
    for event in scheduler.drain_events() {
        let index = |id: RequestId| usize::try_from(id.0).expect("small");
        match event {
            Event::Token { id, first: true, .. } => fates[index(id)].first = now,
            Event::Finished { id, reason: sched::FinishReason::Length, .. } => {
                fates[index(id)].end = now;
            }
            Event::Accepted { .. }
            | Event::Refused { .. }
            | Event::Started { .. }
            | Event::Token { .. }
            | Event::Finished { .. }
            | Event::Step(_) => {}
        }
    }
}

fn submission(at: usize, request: &Request) -> Submission {
    // No two prompts begin alike: nobody helps anybody.
    let first = u32::try_from(at).expect("small") + 100;
    let submitted_at = Micros(request.at_ms * 1_000);
    Submission {
        id: RequestId(at as u128),
        submitted_at,
        prompt: (0..request.prompt).map(|_| Token(first)).collect::<Vec<_>>().into(),
        sampling: Sampling::GREEDY,
        top_logprobs: None,
        max_tokens: request.cap,
        tier: tier(request),
        epoch: Some(1),
        deadline: request.budget_ms.map(|budget| submitted_at + Span::from_millis(budget)),
        first_token: None,
        evict: Vec::new(),
    }
}

fn foreseen(engine: &Engine, requests: &[Request], singly: bool) -> Vec<Fate> {
    let times = StepTimes::of(&engine.cost, engine.limits.slots);
    let fixed = Fixed { limits: &engine.limits, cost: &engine.cost, times: &times };
    let mut state = State {
        free_slots: engine.limits.slots,
        free_blocks: engine.limits.kv_blocks.0,
        ..State::default()
    };
    let mut order: Vec<usize> = (0..requests.len()).collect();
    order.sort_by_key(|at| requests[*at].at_ms);
    for (arrival, at) in order.into_iter().enumerate() {
        let request = &requests[at];
        if blocks(request) > engine.limits.kv_blocks {
            continue;
        }
        let eligible_at = Micros(request.at_ms * 1_000);
        let deadline = request.budget_ms.map(|budget| eligible_at + Span::from_millis(budget));
        state.enqueue(Seq {
            key: PlanKey {
                tier: tier(request),
                deadline: deadline.unwrap_or(Micros(u64::MAX)),
                arrival: arrival as u64 + 1,
            },
            who: u32::try_from(at).expect("small"),
            prefill_left: request.prompt,
            computed: 0,
            left: request.cap,
            cached: 0,
            blocks: blocks(request),
            all_blocks: blocks(request),
            eligible_at,
            preemptions: 0,
            late: false,
            watched: true,
        });
    }
    let mut run = Run::default();
    if singly {
        run.step_singly();
    }
    run.start(&state, requests.len());
    run.finish(fixed, Micros(0), Micros(u64::MAX));
    run.fates
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    /// AD-7: the simulation of a state ends everybody when the real scheduler does, whatever the rules.
    #[test]
    fn what_is_foreseen_happens(engine in engine(), requests in requests()) {
        let real = really(&engine, &requests);
        prop_assert_eq!(foreseen(&engine, &requests, true), real, "step by step");
    }

    /// AD-8: jumps over steps that are alike lead where single steps lead. With costs by attended cell the
    /// time of a jump is rounded once and not at every step.
    #[test]
    fn jumps_lead_where_steps_lead(engine in engine(), requests in requests()) {
        let stepped = foreseen(&engine, &requests, true);
        let jumped = foreseen(&engine, &requests, false);
        prop_assert_eq!(jumped, stepped);
    }

    /// AD-7: each single plan is the planner's.
    #[test]
    fn a_plan_is_the_planner_s(
        engine in engine(),
        running in vec((any::<bool>(), 0_u64..4, 0_u32..90, 0_u32..200), 0..6),
        waiting in vec((any::<bool>(), 0_u64..4, 1_u32..90, 0_u32..50, 1_u32..30), 0..6),
        step in 0_u64..20,
    ) {
        let key = |promised: bool, deadline: u64, arrival: usize| PlanKey {
            tier: if promised { Tier::Promised } else { Tier::BestEffort },
            deadline: Micros(deadline),
            arrival: arrival as u64,
        };
        let seq = |key, prefill_left, computed, blocks| Seq {
            key, who: 0, prefill_left, computed, left: 9, cached: 0, blocks: BlockCount(blocks),
            all_blocks: BlockCount(blocks), eligible_at: Micros(0), preemptions: 0, late: false,
            watched: true,
        };
        let slots = engine.limits.slots as usize;
        let mut runs: Vec<Seq> = running.iter().take(slots).enumerate()
            .map(|(at, &(promised, deadline, left, computed))| {
                seq(key(promised, deadline, at), left, computed, 1)
            })
            .collect();
        runs.sort_unstable_by_key(|it| it.key);
        let mut waits: Vec<Seq> = waiting.iter().enumerate()
            .map(|(at, &(promised, deadline, left, cached, blocks))| {
                seq(key(promised, deadline, at + 100), left, cached, blocks)
            })
            .collect();
        waits.sort_unstable_by_key(|it| it.key);
        let free_slots = engine.limits.slots - u32::try_from(runs.len()).expect("few");
        let problem = StepProblem {
            step,
            running: runs.iter().map(|it| Running {
                key: it.key, prefill_left: it.prefill_left, computed: it.computed,
                grows: BlockCount(0), frees: BlockCount(0),
            }).collect(),
            waiting: waits.iter().map(|it| Waiting {
                key: it.key, prefill: it.prefill_left, cached: it.computed, blocks: it.blocks,
                helpers: Vec::new(),
            }).collect(),
            free_slots,
            free_blocks: BlockCount(40),
        };
        let solution = problem.solve(&engine.limits, &engine.cost);
        prop_assume!(solution.preempts.is_empty());
        let room = Room {
            limits: &engine.limits, cost: &engine.cost, step, slots: free_slots, blocks: 40,
        };
        let mut plan = Step::default();
        let decodes = runs.iter().filter(|it| it.is_decoding()).count();
        plan.plan(&room, &runs, &waits, u32::try_from(decodes).expect("few"));
        let decodes: Vec<usize> = match plan.all_decode {
            true => (0..runs.len()).filter(|at| runs[*at].is_decoding()).collect(),
            false => plan.decodes.clone(),
        };
        let joins: Vec<(usize, u32)> = plan.joins.iter().copied().enumerate().collect();
        prop_assert_eq!(decodes, solution.decodes);
        prop_assert_eq!(&plan.pieces, &solution.prefills);
        prop_assert_eq!(joins, solution.joins);
        let mut shape = plan.shape;
        if engine.cost.per_cell_us == 0.0 {
            shape.cells = solution.shape.cells;
        }
        prop_assert_eq!(shape, solution.shape);
    }
}

/// Half a microsecond is rounded up, as the scheduler's own predictions are.
#[test]
fn times_are_those_of_the_model() {
    let cost = StepCost { base_us: 10.5, gain: 1.0, ..StepCost::GUESS };
    let times = StepTimes::of(&cost, 4);
    for decodes in 0..5 {
        for prefill in [0, 1, 77] {
            let shape = sched::StepShape { decodes, prefill, cells: 900, prefill_cells: 0 };
            assert_eq!(times.us(shape), cost.predict(shape).0);
        }
    }
}
