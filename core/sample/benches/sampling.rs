//! What a token costs to sample, by parameters and vocabulary.
//!
//! `cargo bench -p sample --bench sampling`
//!
//! Rows look like those of a language model: a few likely tokens above a bell of unlikely ones. Each line
//! takes its rows in turn, so that no line lives on one lucky row.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng as _, SeedableRng as _},
};
use sample::{Bias, Logprobs, Sampler, Sampling};
use units::Token;

/// Of a model of 135 million parameters, and of one with a large vocabulary.
const VOCABULARIES: [usize; 2] = [49_152, 256_000];
const ROWS: usize = 8;
/// An answer that is penalised has about this many tokens; then another one begins.
const ANSWER: usize = 256;

fn rows(vocabulary: usize) -> Vec<Vec<f32>> {
    let mut generator = ChaCha8Rng::seed_from_u64(7);
    let mut share = || (generator.next_u32() >> 8) as f32 / (1 << 24) as f32;
    let mut row = || -> Vec<f32> {
        let mut row: Vec<f32> =
            (0..vocabulary).map(|_| 2.2 * ((0..12).map(|_| share()).sum::<f32>() - 6.0)).collect();
        for rank in 0..200_u16 {
            #[expect(clippy::cast_possible_truncation, reason = "below the vocabulary")]
            let at = (share() * (vocabulary - 1) as f32) as usize;
            row[at] = 16.0 - 1.6 * f32::from(rank + 1).ln();
        }
        row
    };
    (0..ROWS).map(|_| row()).collect()
}

fn lines() -> Vec<(&'static str, Sampling)> {
    let drawn = Sampling { temperature: 0.8, seed: 7, ..Sampling::GREEDY };
    let bias = |entries: u32| {
        let entry = |at| Bias { token: Token(at * 97), bias: 1.5 };
        Sampling { logit_bias: (0..entries).map(entry).collect(), ..Sampling::GREEDY }
    };
    vec![
        ("greedy", Sampling::GREEDY),
        ("top_k 40", Sampling { top_k: 40, ..drawn.clone() }),
        ("top_k 40, top_p 0.9", Sampling { top_k: 40, top_p: 0.9, ..drawn.clone() }),
        ("top_p 0.9", Sampling { top_p: 0.9, ..drawn.clone() }),
        ("min_p 0.05", Sampling { min_p: 0.05, ..drawn.clone() }),
        ("temperature", drawn.clone()),
        ("penalties", Sampling { frequency_penalty: 0.5, repeat_penalty: 1.1, ..Sampling::GREEDY }),
        ("penalties, top_p 0.9", Sampling { frequency_penalty: 0.5, top_p: 0.9, ..drawn }),
        ("logit_bias of 10", bias(10)),
        ("logit_bias of 300", bias(300)),
    ]
}

fn sampling(criterion: &mut Criterion) {
    let prompt: Vec<Token> = (0..500).map(|at| Token(at * 61 % 40_000)).collect();
    let answer: Vec<Token> = (0..200).map(|at| Token(at * 53 % 40_000)).collect();
    for vocabulary in VOCABULARIES {
        let rows = rows(vocabulary);
        let mut group = criterion.benchmark_group("sample");
        for (name, sampling) in lines() {
            let fresh = Sampler::new(sampling, &prompt, &answer);
            let mut sampler = fresh.clone();
            let mut turn = rows.iter().cycle().enumerate();
            group.bench_function(BenchmarkId::new(name, vocabulary), |bencher| {
                bencher.iter(|| {
                    let (at, row) = turn.next().expect("endless");
                    if at % ANSWER == 0 {
                        sampler = fresh.clone();
                    }
                    sampler.sample(black_box(row))
                });
            });
        }
        group.finish();
        let mut group = criterion.benchmark_group("logprobs");
        for count in [0, 5, 20] {
            let mut turn = rows.iter().cycle();
            group.bench_function(BenchmarkId::new(format!("top {count}"), vocabulary), |bencher| {
                bencher.iter(|| {
                    Logprobs::of(black_box(turn.next().expect("endless")), Token(3), count)
                });
            });
        }
        group.finish();
    }
}

criterion_group!(benches, sampling);
criterion_main!(benches);
