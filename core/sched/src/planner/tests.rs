use proptest::{prelude::*, sample::select};
use units::{Micros, Span};

use super::*;
use crate::{Bend, Discipline, Order, Rules, Tier};

const LIMITS: Limits = Limits {
    slots: 4,
    context_tokens: 1_000,
    batch_tokens: 512,
    prefill_tokens: 512,
    step: Span::from_millis(500),
    waiting: 8,
    unleased: 8,
    kv_blocks: BlockCount(100),
    rules: Rules {
        discipline: Discipline::Continuous,
        order: Order::DecodeFirst,
        reservation: crate::Reservation::Full,
        output_cap: None,
        lateness: crate::Lateness::Finish,
        itl: None,
    },
};

fn key(tier: Tier, arrival: u64) -> PlanKey {
    PlanKey { tier, deadline: Micros(0), arrival }
}

fn waiting(prefill: u32, blocks: u32) -> Waiting {
    Waiting {
        key: key(Tier::BestEffort, 9),
        prefill,
        cached: 0,
        blocks: BlockCount(blocks),
        helpers: Vec::new(),
    }
}

fn promised(prefill: u32, blocks: u32) -> Waiting {
    Waiting { key: key(Tier::Promised, 9), ..waiting(prefill, blocks) }
}

fn running(prefill_left: u32, computed: u32) -> Running {
    Running {
        key: key(Tier::BestEffort, 0),
        prefill_left,
        computed,
        grows: BlockCount(0),
        frees: BlockCount(5),
    }
}

fn growing(frees: u32) -> Running {
    Running { grows: BlockCount(1), frees: BlockCount(frees), ..running(0, 16) }
}

fn problem(running: Vec<Running>, waiting: Vec<Waiting>, slots: u32, blocks: u32) -> StepProblem {
    StepProblem { step: 1, running, waiting, free_slots: slots, free_blocks: BlockCount(blocks) }
}

fn solve(problem: &StepProblem) -> StepSolution {
    problem.solve(&LIMITS, &StepCost::GUESS)
}

#[test]
fn no_step_is_predicted_over_the_limit() {
    let problem = problem(vec![running(0, 9); 3], vec![waiting(900, 60)], 1, 100);
    let solution = solve(&problem);
    // 4 + 3 * 4 ms leave 484 ms for 2.2 ms tokens.
    assert_eq!((solution.decodes.len(), &solution.joins), (3, &vec![(0, 220)]));
}

#[test]
fn nobody_overtakes_the_head_of_the_queue() {
    let problem = problem(Vec::new(), vec![waiting(20, 60), waiting(20, 2)], 4, 50);
    assert_eq!(solve(&problem).joins, []);
}

#[test]
fn a_request_does_not_join_for_a_few_tokens() {
    let limits = Limits { prefill_tokens: 40, ..LIMITS };
    let problem = problem(Vec::new(), vec![waiting(30, 2), waiting(30, 2)], 4, 50);
    assert_eq!(problem.solve(&limits, &StepCost::GUESS).joins, [(0, 30)]);
}

#[test]
fn small_steps_do_not_keep_requests_from_running_together() {
    let joins = |limits: Limits, cost: StepCost| {
        let problem = problem(vec![running(0, 9)], vec![waiting(300, 20)], 3, 100);
        problem.solve(&limits, &cost).joins
    };
    let guess = StepCost::GUESS;
    assert_eq!(joins(Limits { prefill_tokens: 15, ..LIMITS }, guess), [(0, 15)]);
    assert_eq!(joins(Limits { prefill_tokens: 1, ..LIMITS }, guess), [(0, 1)]);
    let narrow = Limits { batch_tokens: 4, prefill_tokens: 4, ..LIMITS };
    assert_eq!(joins(narrow, guess), [(0, 3)]);
    // A large model: 500 ms are five tokens, four beside an answer.
    let large = StepCost { per_prefill_token_us: 95_000.0, per_decode_us: 95_000.0, ..guess };
    assert_eq!(joins(LIMITS, large), [(0, 4)]);
}

#[test]
fn the_queue_is_planned_among_the_prompts_that_run() {
    let limits = Limits { prefill_tokens: 100, ..LIMITS };
    let queue = vec![promised(60, 9), waiting(60, 9)];
    let solution = problem(vec![running(700, 0)], queue, 4, 50).solve(&limits, &StepCost::GUESS);
    assert_eq!((solution.joins, solution.prefills), (vec![(0, 60)], vec![(0, 40)]));
}

#[test]
fn a_machine_too_slow_for_its_limit_still_moves() {
    let cost = StepCost { gain: 60.0, base_us: 1e6, ..StepCost::GUESS };
    let decode = problem(vec![running(0, 9); 3], Vec::new(), 0, 0);
    assert_eq!(decode.solve(&LIMITS, &cost).decodes, [0]);
    let join = problem(Vec::new(), vec![waiting(900, 60)], 1, 100);
    assert_eq!(join.solve(&LIMITS, &cost).joins, [(0, 1)]);
}

#[test]
fn the_first_prompt_gets_a_row_though_answers_fill_the_step() {
    // 500 ms are 123 decodes.
    let mut many = vec![running(0, 9); 150];
    many[0] = running(700, 0);
    let solution = solve(&problem(many.clone(), Vec::new(), 0, 0));
    assert_eq!((solution.prefills, solution.decodes.len()), (vec![(0, 1)], 123));
    many[0] = running(0, 9);
    let prefill_first =
        Limits { rules: Rules { order: Order::PrefillFirst, ..LIMITS.rules }, ..LIMITS };
    let prompts = problem(vec![running(0, 9), running(0, 9), running(700, 0)], Vec::new(), 0, 0);
    let solution = prompts.solve(&prefill_first, &StepCost::GUESS);
    assert_eq!((solution.prefills, solution.decodes), (vec![(2, 223)], vec![0]));
}

fn with_target(millis: u64, order: Order) -> Limits {
    let rules = Rules { itl: Some(Span::from_millis(millis)), order, ..LIMITS.rules };
    Limits { rules, ..LIMITS }
}

#[test]
fn prompts_beside_answers_keep_the_target_and_alone_they_do_not() {
    let tokens = |runs: Vec<Running>, order| {
        let solution = problem(runs, vec![waiting(900, 60)], 1, 100)
            .solve(&with_target(100, order), &StepCost::GUESS);
        (solution.decodes.len(), solution.joins.first().map_or(0, |it| it.1))
    };
    for order in [Order::DecodeFirst, Order::PrefillFirst] {
        // 4 + 2 * 4 ms leave 88 ms of 100 for 2.2 ms tokens, and without answers 496 of 500.
        assert_eq!(tokens(vec![running(0, 9); 2], order), (2, 40));
        assert_eq!(tokens(Vec::new(), order), (0, 225));
        // An answer that finds no block has no next token to wait for.
        let stuck = Running { grows: BlockCount(200), ..running(0, 9) };
        assert_eq!(tokens(vec![stuck], order), (0, 225));
    }
}

#[test]
fn answers_that_fill_the_target_leave_prompts_the_smallest_chunk_in_its_turn() {
    let chunk = |step, order, prompt: Vec<Running>| {
        let runs = [prompt, vec![running(0, 9); 30]].concat();
        let problem = StepProblem { step, ..problem(runs, vec![waiting(900, 60)], 1, 100) };
        let solution = problem.solve(&with_target(100, order), &StepCost::GUESS);
        assert_eq!(solution.decodes.len(), 30, "answers alone may exceed it");
        (solution.prefills.iter().map(|it| it.1).sum::<u32>(), solution.joins)
    };
    let none = Vec::new;
    assert_eq!(chunk(7, Order::DecodeFirst, none()), (0, vec![]));
    assert_eq!(chunk(8, Order::DecodeFirst, none()), (0, vec![(0, 16)]));
    assert_eq!(chunk(7, Order::PrefillFirst, none()), (0, vec![(0, 16)]));
    // The first in planning order has its row, and what it has is part of the chunk.
    assert_eq!(chunk(7, Order::DecodeFirst, vec![running(700, 0)]), (1, vec![]));
    assert_eq!(chunk(8, Order::DecodeFirst, vec![running(700, 0)]), (16, vec![]));
    assert_eq!(chunk(8, Order::DecodeFirst, vec![running(4, 0)]), (4, vec![]));
}

#[test]
fn the_step_limit_holds_under_any_target() {
    let problem = problem(vec![running(0, 9); 3], vec![waiting(900, 60)], 1, 100);
    let solution = problem.solve(&with_target(60_000, Order::DecodeFirst), &StepCost::GUESS);
    assert_eq!(solution, solve(&problem));
}

#[test]
fn helped_requests_wait_and_keep_their_claim() {
    let helped = Waiting { helpers: vec![Helper::Running(0)], ..waiting(60, 30) };
    let queue = vec![helped, waiting(10, 15), waiting(10, 5), waiting(10, 1)];
    // 50 blocks: 30 are set aside, 15 and 5 are taken.
    let solution = solve(&problem(vec![running(9, 0)], queue.clone(), 4, 50));
    assert_eq!(solution.joins, [(1, 10), (2, 10)]);
    // A helper that is preempted helps nobody.
    let mut displacing = vec![promised(16, 60)];
    displacing.extend(queue);
    let solution = solve(&problem(vec![running(9, 0)], displacing, 4, 57));
    assert_eq!((solution.preempts, solution.joins), (vec![(0, Cause::Promise)], vec![(0, 16)]));
}

#[test]
fn who_would_be_helped_by_one_that_does_not_join_goes_itself() {
    let first = Waiting { helpers: vec![Helper::Running(0)], ..waiting(60, 3) };
    let second = Waiting { helpers: vec![Helper::Waiting(0)], ..waiting(60, 3) };
    let third = Waiting { helpers: vec![Helper::Waiting(0), Helper::Waiting(1)], ..waiting(60, 3) };
    let solution = solve(&problem(vec![running(9, 0)], vec![first, second, third], 4, 50));
    assert_eq!(solution.joins, [(1, 60)]);
}

#[test]
fn growth_takes_from_the_last_and_never_from_the_first() {
    let solution = solve(&problem(vec![growing(5), growing(5), growing(5)], Vec::new(), 0, 1));
    // One block for the first; the last gives five, of which the second takes one.
    assert_eq!((solution.preempts, solution.decodes), (vec![(2, Cause::Pressure)], vec![0, 1]));
    let solution = solve(&problem(vec![growing(0), growing(0), growing(0)], Vec::new(), 0, 0));
    let all = vec![(2, Cause::Pressure), (1, Cause::Pressure)];
    assert_eq!((solution.preempts, solution.decodes), (all, vec![]));
}

#[test]
fn whoever_needs_a_block_last_goes_itself() {
    let solution = solve(&problem(vec![running(0, 9), growing(5)], Vec::new(), 0, 0));
    assert_eq!((solution.preempts, solution.decodes), (vec![(1, Cause::Pressure)], vec![0]));
}

#[test]
fn a_promise_takes_what_it_lacks_if_that_is_enough() {
    let runs = vec![running(0, 9), running(0, 9)];
    let took = |blocks| solve(&problem(runs.clone(), vec![promised(20, blocks)], 0, 3)).preempts;
    assert_eq!(took(8), [(1, Cause::Promise)]);
    assert_eq!(took(9), [(1, Cause::Promise), (0, Cause::Promise)]);
    assert_eq!(took(14), [], "not even both would do");
    let others = solve(&problem(runs.clone(), vec![waiting(20, 8)], 0, 3));
    assert_eq!(others.preempts, [], "best effort takes nothing");
    let batch = Discipline::Static { batch: 4, wait: Span::ZERO };
    let limits = Limits { rules: Rules { discipline: batch, ..LIMITS.rules }, ..LIMITS };
    let fixed = problem(runs, vec![promised(20, 8)], 0, 3).solve(&limits, &StepCost::GUESS);
    assert_eq!(fixed.preempts, [], "a batch stays together");
}

#[test]
fn promises_take_nothing_from_promises() {
    let safe = Running { key: key(Tier::Promised, 1), ..running(0, 9) };
    let solution = solve(&problem(vec![safe], vec![promised(20, 8)], 0, 30));
    assert_eq!((solution.preempts, solution.joins), (vec![], vec![]));
}

fn problems() -> impl Strategy<Value = StepProblem> {
    let tier = || prop_oneof![Just(Tier::Promised), Just(Tier::BestEffort)];
    let runs = (tier(), prop_oneof![Just(0u32), 0u32..700], 0u32..700, 0u32..3, 0u32..20).prop_map(
        |(tier, left, computed, grows, frees)| Running {
            key: key(tier, 0),
            // Promised work never grows: it has all it needs.
            grows: BlockCount(if left > 0 || tier == Tier::Promised { 0 } else { grows / 2 }),
            frees: BlockCount(frees),
            ..running(left, computed)
        },
    );
    let waits = (tier(), 1u32..700, 1u32..60, prop::collection::vec(0usize..5, 0..2)).prop_map(
        |(tier, prefill, blocks, helpers)| Waiting {
            key: key(tier, 9),
            helpers: helpers.into_iter().map(Helper::Waiting).collect(),
            ..waiting(prefill, blocks)
        },
    );
    let many = (prop::collection::vec(runs, 0..6), prop::collection::vec(waits, 0..6));
    (many, 0u32..5, 0u32..100, 1u64..17).prop_map(
        |((mut runs, mut waits), free_slots, blocks, step)| {
            runs.sort_by_key(|it| it.key);
            waits.sort_by_key(|it| it.key);
            for (at, it) in waits.iter_mut().enumerate() {
                it.helpers.retain(|helper| matches!(helper, Helper::Waiting(ahead) if *ahead < at));
            }
            StepProblem { step, ..problem(runs, waits, free_slots, blocks) }
        },
    )
}

/// SC-1 to SC-4 and SC-13 of one solution.
fn check(problem: &StepProblem, limits: &Limits, cost: &StepCost) {
    let solution = problem.solve(limits, cost);
    let (shape, rows) = (solution.shape, solution.rows());
    assert!(cost.predict(shape) <= limits.step || rows == 1, "SC-1");
    assert!(shape.prefill <= limits.prefill_tokens && rows <= limits.batch_tokens, "SC-2");
    if let Some(itl) = limits.rules.itl
        && shape.decodes > 0
    {
        let sure = u32::from(solution.prefills.first().is_some_and(|it| it.0 == 0));
        let in_turn = limits.rules.order == Order::PrefillFirst || problem.step.is_multiple_of(8);
        let spare = if in_turn { 16 } else { sure };
        assert!(cost.predict(shape) <= itl || shape.prefill <= spare, "SC-13");
    }
    for &at in &solution.decodes {
        assert_eq!(problem.running[at].prefill_left, 0, "SC-3");
    }
    let preempted = |at: usize| solution.preempts.iter().any(|(gone, _)| *gone == at);
    let works = solution.decodes.iter().copied().chain(solution.prefills.iter().map(|it| it.0));
    assert!(!works.clone().any(preempted), "who is preempted has no row");
    let freed = solution.preempts.iter().map(|&(at, _)| problem.running[at].frees);
    let free: BlockCount = freed.sum::<BlockCount>() + problem.free_blocks;
    let grown: BlockCount = solution.decodes.iter().map(|&at| problem.running[at].grows).sum();
    let joined: BlockCount = solution.joins.iter().map(|&(at, _)| problem.waiting[at].blocks).sum();
    assert!(grown + joined <= free, "SC-4: blocks");
    let slots = problem.free_slots as usize + solution.preempts.len();
    assert!(solution.joins.len() <= slots, "SC-4: slots");
    let first_can_join = problem.free_slots > 0
        && problem.waiting.first().is_some_and(|it| it.blocks <= problem.free_blocks);
    let stuck = |it: &Running| it.grows > free;
    let first_runs = problem.running.first().is_some_and(|it| !stuck(it));
    assert!(rows > 0 || !first_runs && !first_can_join, "something moves");
}

proptest! {
    #[test]
    fn every_solution_keeps_the_limits(
        problem in problems(),
        prefill_tokens in 1u32..512,
        gain in 0.01f64..100.0,
        (per_cell_us, per_tiled_cell_us) in (0.0f64..3.0, 0.0f64..3.0),
        (prompt_us, bends) in (0.0f64..9_000.0, prop::collection::vec(0.0f64..4_000.0, 0..6)),
        order in select(vec![Order::DecodeFirst, Order::PrefillFirst]),
        itl in select(vec![None, Some(1), Some(60), Some(400)]),
    ) {
        let rules = Rules { order, itl: itl.map(Span::from_millis), ..LIMITS.rules };
        let limits = Limits { prefill_tokens, rules, ..LIMITS };
        let bend = Bend::new(&bends);
        let cost = StepCost { gain, per_cell_us, per_tiled_cell_us, prompt_us, bend, ..StepCost::GUESS };
        prop_assert_eq!(cost.validate(), Ok(()));
        check(&problem, &limits, &cost);
    }
}
