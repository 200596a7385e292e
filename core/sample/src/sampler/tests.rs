use proptest::prelude::*;
use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};

use super::*;
use crate::{Bias, cut, draw::unit, row};

fn plain() -> Sampling {
    Sampling { temperature: 1.0, seed: 7, ..Sampling::GREEDY }
}

/// What the sampler promises, written as plainly as possible: sort everything, filter in turn, draw.
fn naive(row: &[f32], sampling: &Sampling, drawn: u32) -> usize {
    let mut generator = ChaCha8Rng::seed_from_u64(sampling.seed);
    for _ in 0..drawn {
        generator.next_u64();
    }
    let share = unit(generator.next_u64());
    let mut order: Vec<usize> = (0..row.len()).filter(|&id| row[id] > f32::NEG_INFINITY).collect();
    order.sort_by(|&a, &b| row[b].partial_cmp(&row[a]).expect("no NaN").then(a.cmp(&b)));
    let top = row[order[0]];
    if sampling.top_k > 0 {
        order.truncate(sampling.top_k as usize);
    }
    let weight = |id: usize| f64::from(row::exp(row[id] - top));
    let target = f64::from(sampling.top_p) * order.iter().copied().map(weight).sum::<f64>();
    if sampling.top_p < 1.0 {
        let mut mass = 0.0;
        let enough = order.iter().position(|&id| {
            mass += weight(id);
            mass >= target
        });
        order.truncate(enough.map_or(order.len(), |last| last + 1));
    }
    if sampling.min_p > 0.0 {
        order.retain(|&id| row[id] >= top + cut::ln(sampling.min_p));
    }
    order.sort_unstable();
    let weight = |id: usize| f64::from(row::exp((row[id] - top) / sampling.temperature));
    let mut left = share * order.iter().copied().map(weight).sum::<f64>();
    for &id in &order {
        left -= weight(id);
        if left < 0.0 {
            return id;
        }
    }
    order[order.len() - 1]
}

fn index(token: Token) -> usize {
    token.0 as usize
}

fn draws(sampling: Sampling, row: &[f32], count: usize) -> Vec<u32> {
    let mut sampler = Sampler::new(sampling, &[], &[]);
    (0..count).map(|_| sampler.sample(row).0).collect()
}

/// Chi-square of the draws of a row against the weights that they should have, zero for never.
fn chi_square(sampling: Sampling, row: &[f32], expected: &[f64]) -> f64 {
    const DRAWS: usize = 20_000;
    let total: f64 = expected.iter().sum();
    let mut seen = vec![0_u32; row.len()];
    for id in draws(sampling, row, DRAWS) {
        seen[id as usize] += 1;
    }
    let terms = seen.iter().zip(expected).map(|(&seen, expected)| {
        let expected = expected / total * DRAWS as f64;
        assert!(expected > 0.0 || seen == 0, "a filtered token was drawn");
        if expected > 0.0 { (f64::from(seen) - expected).powi(2) / expected } else { 0.0 }
    });
    terms.sum()
}

fn row() -> impl Strategy<Value = Vec<f32>> {
    let logit = prop_oneof![
        6 => -12.0_f32..12.0,
        // Ties, at the top, in the middle and at the end.
        2 => prop::sample::select(vec![12.0_f32, 3.0, 0.0, -0.0, -7.5]),
        1 => Just(f32::NEG_INFINITY),
    ];
    prop_oneof![
        prop::collection::vec(logit.clone(), 1..40),
        prop::collection::vec(logit, 1_000..3_000),
        // Flat enough for the search to need all of it.
        prop::collection::vec(-0.01_f32..0.01, 1..3_000),
        // Steep: a few far above a multitude.
        prop::collection::vec(prop_oneof![40 => -60.0_f32..-5.0, 1 => 0.0_f32..30.0], 600..3_000),
    ]
    .prop_filter("has a finite logit", |row| row::max(row).is_finite())
}

fn sampling() -> impl Strategy<Value = Sampling> {
    (
        prop_oneof![0.01_f32..2.0, Just(1.0)],
        prop_oneof![Just(0_u32), 1..50_u32, 1..5_000_u32, Just(u32::MAX)],
        prop_oneof![Just(1.0_f32), 0.0_f32..1.0, 0.9_f32..1.0, Just(0.0)],
        prop_oneof![Just(0.0_f32), 0.0_f32..1.0, Just(1.0)],
        any::<u64>(),
    )
        .prop_map(|(temperature, top_k, top_p, min_p, seed)| Sampling {
            temperature,
            top_k,
            top_p,
            min_p,
            seed,
            ..Sampling::GREEDY
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn a_draw_is_what_sorting_everything_would_give(row in row(), sampling in sampling(), drawn in 0..9_u32) {
        let before = vec![Token(0); drawn as usize];
        let mut sampler = Sampler::new(sampling.clone(), &[], &before);
        for offset in 0..4 {
            let expected = naive(&row, &sampling, drawn + offset);
            prop_assert_eq!(index(sampler.sample(&row)), expected);
        }
    }

    #[test]
    fn any_row_gives_a_token_of_it(
        row in prop::collection::vec(any::<f32>(), 1..700),
        sampling in sampling(),
    ) {
        let token = index(Sampler::new(sampling, &[], &[]).sample(&row));
        prop_assert!(token < row.len());
        prop_assert!(!row[token].is_nan() || row.iter().all(|logit| logit.is_nan() || *logit == f32::NEG_INFINITY));
    }
}

#[test]
fn draws_follow_the_probabilities() {
    let row = [0.0, 1.0, 2.0, 0.5, -1.0, 2.0];
    let at = |temperature: f32| row.map(|logit| f64::from(logit / temperature).exp());
    // 15.1 is the 1 % bound of five degrees of freedom; the seed is fixed.
    assert!(chi_square(plain(), &row, &at(1.0)) < 15.1);
    assert!(chi_square(Sampling { temperature: 0.4, ..plain() }, &row, &at(0.4)) < 15.1);
    assert!(chi_square(Sampling { temperature: 2.0, ..plain() }, &row, &at(2.0)) < 15.1);
}

#[test]
fn filters_keep_the_likeliest_in_their_proportion() {
    let row = [0.0, 1.0, 2.0, 0.5, -1.0, 2.0];
    let kept = |ids: &[usize]| {
        let mut weights = [0.0; 6];
        ids.iter().for_each(|&id| weights[id] = f64::from(row[id]).exp());
        weights
    };
    assert!(chi_square(Sampling { top_k: 3, ..plain() }, &row, &kept(&[1, 2, 5])) < 9.3);
    assert!(chi_square(Sampling { top_p: 0.8, ..plain() }, &row, &kept(&[1, 2, 5])) < 9.3);
    assert!(chi_square(Sampling { min_p: 0.2, ..plain() }, &row, &kept(&[1, 2, 3, 5])) < 11.4);
}

#[test]
fn the_narrowest_filters_leave_the_first_likeliest() {
    let row = [0.0, 2.0, 1.0, 2.0];
    for narrow in [Sampling { top_k: 1, ..plain() }, Sampling { top_p: 0.0, ..plain() }] {
        assert_eq!(draws(narrow, &row, 50), [1; 50]);
    }
}

#[test]
fn a_seed_is_a_text() {
    let row: Vec<f32> = (0..300).map(|id| ((id * 37) % 101) as f32 / 20.0).collect();
    let with = |seed| draws(Sampling { seed, ..plain() }, &row, 40);
    assert_eq!(with(42), with(42));
    assert_ne!(with(42), with(43));
    // The text itself must survive upgrades and other machines.
    assert_eq!(draws(Sampling { seed: 42, ..plain() }, &row, 6), [206, 283, 130, 188, 87, 46]);
}

#[test]
fn a_resumed_sequence_goes_on_as_if_nothing_had_happened() {
    let row: Vec<f32> = (0..100).map(|id| (id % 7) as f32).collect();
    let whole = draws(plain(), &row, 200);
    for drawn in [0, 1, 31, 32, 33, 150] {
        let mut resumed = Sampler::new(plain(), &[], &vec![Token(0); drawn as usize]);
        let rest: Vec<u32> =
            whole.iter().skip(drawn as usize).map(|_| resumed.sample(&row).0).collect();
        assert_eq!(rest, whole[drawn as usize..], "after {drawn}");
    }
}

#[test]
fn a_row_without_numbers_takes_its_draw_too() {
    let row = [1.0, 2.0, 3.0];
    let mut sampler = Sampler::new(plain(), &[], &[]);
    for hostile in [&[][..], &[f32::NAN; 3], &[f32::NEG_INFINITY; 3]] {
        assert_eq!(sampler.sample(hostile), Token(0));
    }
    assert_eq!(sampler.sample(&[0.0, f32::INFINITY, f32::INFINITY]), Token(1));
    let after: Vec<u32> = (0..20).map(|_| sampler.sample(&row).0).collect();
    assert_eq!(after, draws(plain(), &row, 24)[4..]);
}

#[test]
fn one_real_logit_is_drawn() {
    let row = [f32::NAN, f32::NEG_INFINITY, -5.0, f32::NAN];
    let sharp =
        Sampling { temperature: f32::MIN_POSITIVE, top_p: 0.5, min_p: 0.1, top_k: 2, ..plain() };
    for sampling in [plain(), sharp, Sampling { temperature: 0.0, ..plain() }] {
        assert_eq!(draws(sampling, &row, 5), [2; 5]);
    }
}

fn bias(entries: &[(u32, f32)]) -> Vec<Bias> {
    entries.iter().map(|&(token, bias)| Bias { token: Token(token), bias }).collect()
}

#[test]
fn a_forbidden_token_is_never_taken() {
    let row = [0.0, 9.0, 1.0, 9.0];
    let logit_bias = bias(&[(1, -100.0), (3, -100.0)]);
    let greedy = Sampling { logit_bias, ..Sampling::GREEDY };
    assert_eq!(draws(greedy.clone(), &row, 3), [2; 3]);
    let drawn = draws(Sampling { temperature: 2.0, ..greedy }, &row, 200);
    assert!(drawn.contains(&0) && drawn.iter().all(|id| id % 2 == 0), "{drawn:?}");
}

#[test]
fn everything_may_be_forbidden() {
    let logit_bias = bias(&[(0, -100.0), (1, -100.0), (2, -100.0)]);
    for temperature in [0.0, 1.0] {
        for (top_k, top_p, min_p) in [(0, 1.0, 0.0), (1, 0.5, 0.5), (9, 0.0, 1.0)] {
            let logit_bias = logit_bias.clone();
            let sampling = Sampling { temperature, top_k, top_p, min_p, logit_bias, ..plain() };
            assert_eq!(draws(sampling, &[5.0, 1.0, 2.0], 2), [0; 2]);
        }
    }
}

#[test]
fn a_greedy_answer_heeds_its_penalties() {
    let row = [3.0, 2.5, 2.2, -9.0];
    let with = |sampling| draws(sampling, &row, 6);
    let frequency = Sampling { frequency_penalty: 1.0, ..Sampling::GREEDY };
    assert_eq!(with(frequency), [0, 1, 2, 0, 1, 2]);
    let presence = Sampling { presence_penalty: 0.6, ..Sampling::GREEDY };
    assert_eq!(with(presence), [0, 1, 0, 0, 0, 0]);
    let repeat = Sampling { repeat_penalty: 2.0, ..Sampling::GREEDY };
    assert_eq!(with(repeat), [0, 1, 2, 0, 0, 0]);
}

#[test]
fn a_prompt_counts_for_repeating_only() {
    let row = [3.0, 2.5];
    let first = |sampling| Sampler::new(sampling, &[Token(0)], &[]).sample(&row).0;
    assert_eq!(first(Sampling { repeat_penalty: 1.5, ..Sampling::GREEDY }), 1);
    assert_eq!(first(Sampling { frequency_penalty: 2.0, ..Sampling::GREEDY }), 0);
}

proptest! {
    /// Preemption by recompute: prompt and answer are handed over, and the draws go on.
    #[test]
    fn a_resumed_answer_is_penalised_as_before(
        sampling in sampling(),
        penalties in (-2.0_f32..2.0, -2.0_f32..2.0, 0.1_f32..3.0),
        prompt in prop::collection::vec(0..40_u32, 0..9),
        cut in 0..30_usize,
    ) {
        let (presence_penalty, frequency_penalty, repeat_penalty) = penalties;
        let logit_bias = bias(&[(3, -100.0), (7, 2.0)]);
        let sampling =
            Sampling { presence_penalty, frequency_penalty, repeat_penalty, logit_bias, ..sampling };
        let prompt: Vec<Token> = prompt.into_iter().map(Token).collect();
        let row: Vec<f32> = (0..40).map(|id| ((id * 17) % 11) as f32 / 3.0).collect();
        let mut whole = Sampler::new(sampling.clone(), &prompt, &[]);
        let answer: Vec<Token> = (0..30).map(|_| whole.sample(&row)).collect();
        let mut resumed = Sampler::new(sampling, &prompt, &answer[..cut]);
        let rest: Vec<Token> = answer[cut..].iter().map(|_| resumed.sample(&row)).collect();
        prop_assert_eq!(rest, &answer[cut..]);
    }
}
