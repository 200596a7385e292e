//! The same tokens computed in other ways: with and without the cache, in pieces, alone, in the other layout.
//!
//! Every way is fed the same tokens, whatever it would answer (teacher forcing), and tells its twenty
//! likeliest tokens at each. Where the arithmetic is the same they are the same to the last bit;
//! elsewhere the likeliest must be the same at 97 of 100 tokens, and nearly tied where it is not.
//!
//! In streams the arithmetic of a row depends on two things only: whether its step computes 64 or more
//! rows of its sequence (attention then works on tiles), and whether a step of one row attends to 512
//! cells or more (it is then split between threads).

#![expect(clippy::print_stdout, reason = "how far ways agree is a finding")]

use std::sync::LazyLock;

use llama::{Context, LayoutKind, Options};
use sample::Logprobs;
use sched::{Move, Reuse};
use text::Tokenizer;
use units::{Owner, Slot, Token};

use crate::{
    drive::{SMALL, Sequence, context, run, run_after},
    model,
};

const WIDTH: u32 = 4;
const SHARED_TOKENS: usize = 100;
/// Within the shared tokens, so that what is kept is cut.
const REUSED_TOKENS: u32 = 96;
const FORCED_TOKENS: usize = 64;
/// Rows of a sequence in a step, where attention works row by row, and where it works on tiles.
const BY_ROWS: usize = 48;
const BY_TILES: usize = 128;
const AGREEMENT_MIN: f64 = 0.97;
const GAP_MAX: f32 = 0.25;

const OPTIONS: Options =
    Options { slots: 6, context_tokens: 256, batch_tokens: 512, owners: 4, ..SMALL };
const UNIFIED: Options = Options { layout: LayoutKind::Unified { cells: 1536 }, ..OPTIONS };

const TEXT: &str = "The harbour was quiet before sunrise. Two fishing boats lay beside the old stone \
    pier, and a third was already far out, a small light between the islands. Marta opened the \
    shutters of her shop and looked at the sky, as her mother had done every morning for forty \
    years. Clouds in the west meant rain by noon; a red line in the east meant wind. Today there \
    was neither. She carried the baskets outside, one after another, and wrote the prices on a \
    slate: bread, eggs, apples from the valley, honey in short jars. The first customer was the \
    postman, who bought nothing and told her everything: the bridge near the mill would be closed \
    until Friday, the teacher had finally found a piano for the school, and somebody had seen a \
    wolf above the upper meadow. By eight o'clock the square was full. Children ran between the \
    stalls, a dog slept under the bench, and the bell of the church counted the hour twice, \
    because its clock had been wrong since the storm in March. When the third boat came back, \
    people went down to the water to see what it had caught, and for a while the shop was empty \
    again. Marta used the time to read the letter that had come from the capital. Her brother \
    wrote about trams and bright windows, about a room on the fifth floor from which one could \
    see the river, and about the factory, where machines did in a minute what a man did in a day. \
    He asked whether she would come in the autumn. She folded the paper, put it behind the clock, \
    and went to help an old man choose his apples. There would be time to answer in winter, when \
    the snow closed the pass and nobody came.";

/// What the model finds likeliest at each forced token of each sequence.
type Told = Vec<Vec<Logprobs>>;

fn tokens() -> Vec<Token> {
    let mut tokens = Vec::new();
    model().encode_plain(TEXT, &mut tokens);
    tokens
}

/// Sequence `number` of those that share their beginning. No two are of the same length.
fn unforced(number: u32) -> Sequence {
    let tokens = tokens();
    let number_of = number as usize;
    let own = SHARED_TOKENS + 40 * number_of;
    let prompt = [&tokens[..SHARED_TOKENS], &tokens[own..own + 12 + 3 * number_of]].concat();
    Sequence { top_logprobs: Some(20), ..Sequence::new(number, prompt.into()) }
}

/// How all sequences go on when they run side by side in streams, nothing is reused, and attention works
/// row by row; and what that way tells.
fn fresh() -> &'static (Vec<Vec<Token>>, Told) {
    static FRESH: LazyLock<(Vec<Vec<Token>>, Told)> = LazyLock::new(|| {
        let mut sequences: Vec<_> = (0..WIDTH).map(unforced).collect();
        run(&mut context(&OPTIONS), &mut sequences, BY_ROWS, FORCED_TOKENS);
        assert!(sequences.iter().all(|one| one.answer.len() == FORCED_TOKENS), "none ends early");
        sequences.into_iter().map(|sequence| (sequence.answer, sequence.told)).unzip()
    });
    &FRESH
}

fn sequence(number: u32) -> Sequence {
    Sequence { forced: fresh().0[number as usize].clone(), ..unforced(number) }
}

/// Some sequences side by side.
fn told(
    context: &mut Context<'_>,
    numbers: impl Iterator<Item = u32>,
    reuse: Option<Reuse>,
    piece: usize,
) -> Told {
    let mut sequences: Vec<_> =
        numbers.map(|number| Sequence { reuse, ..sequence(number) }).collect();
    run(context, &mut sequences, piece, FORCED_TOKENS);
    sequences.into_iter().map(|sequence| sequence.told).collect()
}

/// Keeps the shared tokens of a sequence that has gone on since, so that more is kept than is reused.
fn keep_shared(context: &mut Context<'_>, piece: usize) -> Reuse {
    let (slot, owner) = (Slot(5), Owner(2));
    let mut first = [Sequence { slot, ..sequence(3) }];
    run(context, &mut first, piece, 4);
    let tokens = u32::try_from(SHARED_TOKENS).expect("few");
    let keep = vec![Move::Keep { slot, owner, tokens }];
    // The slot that was kept goes to somebody else at once.
    let mut next = [Sequence { slot, ..sequence(1) }];
    run_after(context, keep, &mut next, piece, 1);
    Reuse { owner, tokens: REUSED_TOKENS }
}

/// Whether the likeliest tokens agree, and every difference is a near tie.
fn agree(way: &str, one: &[Vec<Logprobs>], other: &[Vec<Logprobs>]) {
    let pairs: Vec<_> = one.iter().flatten().zip(other.iter().flatten()).collect();
    assert_eq!(pairs.len(), one.len() * FORCED_TOKENS);
    let exact = pairs.iter().filter(|(one, other)| one == other).count();
    let differ = pairs.iter().filter(|(one, other)| one.top[0].token != other.top[0].token);
    let gaps = differ.map(|(one, _)| one.top[0].logprob - one.top[1].logprob);
    let gaps: Vec<f32> = gaps.collect();
    let widest = gaps.iter().copied().fold(0.0, f32::max);
    let (count, differing) = (pairs.len(), gaps.len());
    println!(
        "{way}: {count} tokens, {exact} the same to the last bit, {differing} with another \
         likeliest token (widest gap {widest:.3})"
    );
    assert!(widest < GAP_MAX, "{way}: a gap of {widest}");
    let agreement = (count - differing) as f64 / count as f64;
    assert!(agreement >= AGREEMENT_MIN, "{way}: {agreement}");
}

fn identical(way: &str, one: &[Vec<Logprobs>], other: &[Vec<Logprobs>]) {
    for (number, (one, other)) in one.iter().zip(other).enumerate() {
        let differs = one.iter().zip(other).position(|(one, other)| one != other);
        assert_eq!(differs, None, "{way}: the first token of sequence {number} to differ");
    }
    println!("{way}: the same to the last bit");
}

#[test]
fn a_restored_prefix_is_gone_on_with_exactly_as_if_it_were_fresh() {
    let mut context = context(&OPTIONS);
    let reuse = Some(keep_shared(&mut context, BY_ROWS));
    let restored = told(&mut context, 0..WIDTH, reuse, BY_ROWS);
    identical("restored and fresh", &fresh().1, &restored);
    let again = told(&mut context, 2..WIDTH, reuse, 5);
    identical("restored again, two in pieces of 5, and fresh", &fresh().1[2..], &again);
}

#[test]
fn pieces_and_company_change_nothing_in_streams() {
    let mut context = context(&OPTIONS);
    let chunked = told(&mut context, 0..WIDTH, None, 7);
    identical("pieces of 7 and of 48", &fresh().1, &chunked);
    let two = told(&mut context, 1..3, None, BY_ROWS);
    identical("two and four side by side", &fresh().1[1..3], &two);
    let one = told(&mut context, 0..1, None, BY_ROWS);
    identical("one and four side by side", &fresh().1[..1], &one);
}

#[test]
fn where_attention_works_on_tiles_differences_are_near_ties() {
    let mut context = context(&OPTIONS);
    let whole = told(&mut context, 0..WIDTH, None, BY_TILES);
    agree("prompts whole and in pieces", &fresh().1, &whole);
    let reuse = keep_shared(&mut context, BY_TILES);
    let restored = told(&mut context, 0..WIDTH, Some(reuse), BY_TILES);
    agree("whole, restored and fresh", &whole, &restored);
}

#[test]
fn alone_and_far_into_a_text_differences_are_near_ties() {
    const DEEP: u32 = 560;
    let sizes = Options { slots: 4, context_tokens: 768, batch_tokens: 640, ..OPTIONS };
    // With one thread there is nothing to split.
    let mut context = context(&Options { threads: 2, ..sizes });
    let text: Vec<Token> = tokens().into_iter().cycle().take(DEEP as usize + 1).collect();
    let slot = Slot(0);
    run(&mut context, &mut [Sequence::new(0, text.clone().into())], 640, 1);
    let keep = vec![Move::Keep { slot, owner: Owner(0), tokens: DEEP }];
    let reuse = Some(Reuse { owner: Owner(0), tokens: DEEP });
    let deep = |number: u32| {
        let own = sequence(number);
        let prompt = [&text[..DEEP as usize], &own.prompt[SHARED_TOKENS..]].concat();
        Sequence { prompt: prompt.into(), reuse, ..own }
    };
    let mut together: Vec<_> = (0..2).map(deep).collect();
    run_after(&mut context, keep, &mut together, BY_ROWS, FORCED_TOKENS);
    let mut alone = [deep(1)];
    run(&mut context, &mut alone, BY_ROWS, FORCED_TOKENS);
    agree("alone and beside another", &[together.remove(1).told], &alone.map(|one| one.told));
}

#[test]
fn in_one_pool_differences_are_near_ties() {
    let mut context = context(&UNIFIED);
    let cold = told(&mut context, 0..WIDTH, None, BY_ROWS);
    agree("one pool and streams", &fresh().1, &cold);
    let reuse = keep_shared(&mut context, BY_ROWS);
    let shared = told(&mut context, 0..WIDTH, Some(reuse), BY_ROWS);
    agree("one pool, shared and computed", &cold, &shared);
}

#[test]
fn what_is_kept_is_counted() {
    let facts = model().facts();
    let mut context = context(&OPTIONS);
    let slot = Slot(0);
    let mut one = [Sequence::new(0, tokens()[..SHARED_TOKENS].into())];
    run(&mut context, &mut one, BY_TILES, 1);
    assert_eq!(context.kept_bytes(), 0);
    let keep = |owner| Move::Keep { slot, owner: Owner(owner), tokens: 64 };
    run_after(&mut context, vec![keep(0), keep(3)], &mut one, 1, 2);
    let tokens = SHARED_TOKENS as u64;
    let (least, most) = (tokens * facts.kv_bytes_per_token, tokens * facts.state_bytes_per_token());
    let kept = context.kept_bytes();
    assert!((2 * least..2 * most + 8192).contains(&kept), "{kept} of {least} to {most}");
    let drops = [0, 3, 1].map(|owner| Move::Drop { owner: Owner(owner) });
    run_after(&mut context, drops.into(), &mut one, 1, 3);
    assert_eq!(context.kept_bytes(), 0);
}
