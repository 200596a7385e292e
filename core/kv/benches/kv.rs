//! Questions: what does a match of 512 tokens cost, what a block table, what the books of a step with 24
//! decoding sequences, and how much of it does the production core save against the reference?

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use kv::{Kind, KvCore, Layout, Lease, Options};
use units::{BlockCount, Token};

const KINDS: [Kind; 2] = [Kind::Paged, Kind::Naive];
/// Prompts that are kept beside the one that is looked up.
const KEPT: u32 = 200;

fn core(kind: Kind) -> Box<dyn KvCore> {
    kind.build(Options {
        blocks: BlockCount(12_288),
        layout: Layout::Unified,
        owners: 232,
        prefixes: true,
    })
}

/// 480 tokens that everybody has in common, and 37 of somebody's own.
fn prompt(of: u32) -> Vec<Token> {
    (0..480).chain((0..37).map(|at| of * 100 + at)).map(Token).collect()
}

fn lease(core: &mut dyn KvCore, prompt: &[Token], blocks: u32) -> Lease {
    let found = core.lookup(prompt);
    core.reserve(found, BlockCount(blocks)).expect("the pool is large")
}

/// Many prompts that go on differently from one beginning are kept.
fn busy(kind: Kind) -> Box<dyn KvCore> {
    let mut core = core(kind);
    for of in 1..=KEPT {
        let mut lease = lease(&mut *core, &prompt(of), 34);
        core.publish(&mut lease, &prompt(of));
        core.release(lease);
    }
    core.drain_cuts();
    core.drain_index();
    core
}

fn matching(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("match of 512 tokens, and back");
    for kind in KINDS {
        let (mut core, prompt) = (busy(kind), prompt(KEPT / 2));
        group.bench_function(BenchmarkId::from_parameter(format!("{kind:?}")), |bencher| {
            bencher.iter(|| {
                let found = core.lookup(black_box(&prompt));
                assert_eq!(found.tokens(), 512);
                core.forgo(found);
            });
        });
    }
    group.finish();
}

fn tables(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("34 blocks, and back");
    for kind in [Kind::Paged, Kind::Naive, Kind::Contiguous] {
        let mut core = core(kind);
        group.bench_function(BenchmarkId::from_parameter(format!("{kind:?}")), |bencher| {
            bencher.iter(|| {
                let lease = lease(&mut *core, black_box(&[]), 34);
                core.release(black_box(lease));
            });
        });
    }
    group.finish();
}

/// Each of 24 sequences needs a further block in this step, which is far more than happens: one in 16
/// does. The leases are replaced when they have grown by 32 blocks.
fn growing(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("24 sequences grow by a block");
    for kind in KINDS {
        let mut core = busy(kind);
        let prompts: Vec<_> = (1..=24).map(prompt).collect();
        let mut leases: Vec<Lease> = Vec::new();
        group.bench_function(BenchmarkId::from_parameter(format!("{kind:?}")), |bencher| {
            bencher.iter(|| {
                if leases.first().is_none_or(|lease| lease.len().0 >= 66) {
                    leases.drain(..).for_each(|lease| core.release(lease));
                    leases.extend(prompts.iter().map(|prompt| lease(&mut *core, prompt, 34)));
                }
                for lease in &mut leases {
                    assert!(core.grow(black_box(lease), BlockCount(1)));
                }
            });
        });
        leases.into_iter().for_each(|lease| core.release(lease));
    }
    group.finish();
}

/// The life of a request on a cache that is full: match, lease, publication, eviction of another.
fn living(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("life of a request, with an eviction");
    for kind in KINDS {
        let (mut core, mut of) = (busy(kind), KEPT);
        group.bench_function(BenchmarkId::from_parameter(format!("{kind:?}")), |bencher| {
            bencher.iter(|| {
                of += 1;
                let prompt = prompt(of);
                let mut lease = lease(&mut *core, &prompt, 38);
                core.publish(&mut lease, &prompt);
                core.note_answer(&lease, 62, true);
                core.release(lease);
                (core.drain_cuts(), core.drain_index())
            });
        });
    }
    group.finish();
}

criterion_group!(benches, matching, tables, growing, living);
criterion_main!(benches);
