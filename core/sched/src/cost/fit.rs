//! The model that fits measured steps best.

use units::Span;

use super::{Bend, StepCost, StepShape};

/// Segments of the decode curve: up to 1, 2, 4, ... sequences.
const SEGMENTS: usize = 9;
/// Coefficients: base, a step with a prompt, prompt token, cell, tiled cell, then the segments.
const TERMS: usize = FIRST_SEGMENT + SEGMENTS;
const BASE: usize = 0;
const PROMPT: usize = 1;
const TOKEN: usize = 2;
const CELL: usize = 3;
const TILED: usize = 4;
const FIRST_SEGMENT: usize = 5;

/// Rounds of improvement. Each makes the sum of squares smaller; terms that go together slowly.
const ROUNDS: usize = 20_000;
/// A round that changes no time by more than this, in relation to it, is the last.
const STILL: f64 = 1e-9;

/// Least squares of the relative error, over coefficients of which none is negative: so that no step
/// gets cheaper by doing more. What the steps leave open stays as in a plain guess.
pub(super) fn fit(steps: &[(StepShape, Span)]) -> Option<StepCost> {
    let steps: Vec<_> = steps.iter().filter(|(_, took)| *took > Span::ZERO).copied().collect();
    if !determine(&steps) {
        return None;
    }
    let homes = homes(&steps);
    let mut squares = [[0.0; TERMS]; TERMS];
    let mut products = [0.0; TERMS];
    for (shape, took) in &steps {
        let row = terms(*shape, &homes).map(|term| term / took.0 as f64);
        for (at, factor) in row.iter().enumerate() {
            products[at] += factor;
            squares[at].iter_mut().zip(row).for_each(|(sum, term)| *sum += factor * term);
        }
    }
    let mut found = guess(&steps);
    for _ in 0..ROUNDS {
        let moved = improve(&squares, &products, &mut found);
        if moved < STILL * steps.len() as f64 {
            break;
        }
    }
    Some(model(&found, &homes))
}

/// Whether the steps tell base, decodes and prompt tokens apart.
fn determine(steps: &[(StepShape, Span)]) -> bool {
    let mut kinds: Vec<_> = steps.iter().map(|(it, _)| (it.decodes, it.prefill)).collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds.len() >= 3 && kinds.iter().any(|it| it.0 > 0) && kinds.iter().any(|it| it.1 > 0)
}

/// For each segment the one whose slope it has: its own if anybody was measured there, or that of the next
/// where somebody was, or else of the last. So what was not measured lies straight between what was.
fn homes(steps: &[(StepShape, Span)]) -> [usize; SEGMENTS] {
    let mut measured = [false; SEGMENTS];
    for (shape, _) in steps.iter().filter(|(shape, _)| shape.decodes > 0) {
        let segment = shape.decodes.next_power_of_two().ilog2() as usize;
        measured[segment.min(SEGMENTS - 1)] = true;
    }
    let last = measured.iter().rposition(|it| *it).unwrap_or_default();
    std::array::from_fn(|at| (at..SEGMENTS).find(|it| measured[*it]).unwrap_or(last))
}

/// What each coefficient is multiplied with.
fn terms(shape: StepShape, homes: &[usize; SEGMENTS]) -> [f64; TERMS] {
    let mut terms = [0.0; TERMS];
    terms[BASE] = 1.0;
    terms[PROMPT] = f64::from(shape.prefill.min(1));
    terms[TOKEN] = f64::from(shape.prefill);
    terms[CELL] = shape.cells.saturating_sub(shape.tiled_cells()) as f64;
    terms[TILED] = shape.tiled_cells() as f64;
    let mut from = 0;
    for (segment, home) in homes.iter().enumerate() {
        let to = 1 << segment;
        terms[FIRST_SEGMENT + home] += f64::from(shape.decodes.clamp(from, to) - from);
        from = to;
    }
    terms
}

/// Every row the same, and nothing else.
fn guess(steps: &[(StepShape, Span)]) -> [f64; TERMS] {
    let rows = steps.iter().map(|(it, _)| f64::from(it.decodes + it.prefill)).sum::<f64>();
    let took = steps.iter().map(|(_, took)| took.0 as f64).sum::<f64>();
    let mut guess = [took / rows.max(1.0); TERMS];
    guess[..FIRST_SEGMENT].fill(0.0);
    guess
}

/// Sets each coefficient to its best value beside the others. Says how far that moved the predictions, as
/// a sum over all steps.
fn improve(
    squares: &[[f64; TERMS]; TERMS],
    products: &[f64; TERMS],
    found: &mut [f64; TERMS],
) -> f64 {
    let mut moved = 0.0;
    for at in 0..TERMS {
        let square = squares[at][at];
        if square <= 0.0 {
            continue;
        }
        let explained: f64 = squares[at].iter().zip(&*found).map(|(it, value)| it * value).sum();
        let best = (found[at] + (products[at] - explained) / square).max(0.0);
        moved += (best - found[at]).powi(2) * square;
        found[at] = best;
    }
    moved.sqrt()
}

/// The coefficients as a line and its bend. After the widest step the line goes on as it ended.
fn model(found: &[f64; TERMS], homes: &[usize; SEGMENTS]) -> StepCost {
    let slope = |segment: usize| found[FIRST_SEGMENT + homes[segment]];
    let per_decode_us = slope(SEGMENTS - 1);
    let (mut from, mut took) = (0.0, 0.0);
    let knots: Vec<f64> = (0_i32..)
        .zip(0..SEGMENTS)
        .map(|(power, segment)| {
            let to = 2_f64.powi(power);
            took += slope(segment) * (to - from);
            from = to;
            took - per_decode_us * to
        })
        .collect();
    StepCost {
        base_us: found[BASE],
        per_decode_us,
        per_prefill_token_us: found[TOKEN],
        per_cell_us: found[CELL],
        gain: 1.0,
        per_tiled_cell_us: found[TILED],
        prompt_us: found[PROMPT],
        bend: Bend::new(&knots),
    }
}
