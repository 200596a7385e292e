use proptest::prelude::*;

use super::*;

fn shape(decodes: u32, prefill: u32) -> StepShape {
    StepShape { decodes, prefill, ..StepShape::default() }
}

/// As decoding bends on a processor: the second sequence costs less than the first.
fn bent() -> StepCost {
    let bend = Bend::new(&[1_000.0, 2_500.0, 5_000.0, 4_000.0]);
    StepCost {
        base_us: 3_000.0,
        prompt_us: 700.0,
        per_cell_us: 2.5,
        per_tiled_cell_us: 0.9,
        bend,
        ..StepCost::GUESS
    }
}

/// Shapes as a calibration runs them.
fn shapes() -> Vec<StepShape> {
    let mut shapes = Vec::new();
    for decodes in [0, 1, 2, 3, 4, 6, 8, 12, 16] {
        for (prefill, computed) in [(0, 0), (1, 0), (16, 0), (64, 300), (128, 0), (256, 500)] {
            for depth in [16, 500] {
                let prefill_cells =
                    u64::from(prefill) * computed + u64::from(prefill * (prefill + 1) / 2);
                let cells = u64::from(decodes) * depth + prefill_cells;
                shapes.push(StepShape { decodes, prefill, cells, prefill_cells });
            }
        }
    }
    shapes.retain(|it| it.decodes + it.prefill > 0);
    shapes
}

fn steps(truth: &StepCost, shapes: &[StepShape]) -> Vec<(StepShape, Span)> {
    shapes.iter().map(|&shape| (shape, truth.predict(shape))).collect()
}

/// The largest relative error over `shapes`.
fn worst(fitted: &StepCost, truth: &StepCost, shapes: &[StepShape]) -> f64 {
    let error = |&shape: &StepShape| {
        let truth = truth.predict(shape).as_secs_f64();
        (fitted.predict(shape).as_secs_f64() / truth - 1.0).abs()
    };
    shapes.iter().map(error).fold(0.0, f64::max)
}

#[test]
fn the_fit_finds_the_model_that_made_the_steps() {
    for truth in [StepCost::GUESS, bent()] {
        let fitted = StepCost::fit(&steps(&truth, &shapes())).expect("determined");
        let worst = worst(&fitted, &truth, &shapes());
        assert!(worst < 0.005, "{worst}: {fitted:?}");
        assert_eq!(fitted.validate(), Ok(()));
    }
}

#[test]
fn the_fit_bears_noise() {
    let truth = bent();
    let mut noise = 1_u64;
    let mut steps = steps(&truth, &shapes());
    for (_, took) in &mut steps {
        noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        // Up to 10 % either way.
        *took = took.mul_f64(0.9 + 0.2 * (noise >> 40) as f64 / (1_u64 << 24) as f64);
    }
    let fitted = StepCost::fit(&steps).expect("determined");
    let worst = worst(&fitted, &truth, &shapes());
    assert!(worst < 0.08, "{worst}: {fitted:?}");
}

#[test]
fn widths_that_were_not_measured_lie_between_and_beyond_those_that_were() {
    let truth = bent();
    let mut some = shapes();
    some.retain(|it| matches!(it.decodes, 0 | 1 | 4 | 16));
    let fitted = StepCost::fit(&steps(&truth, &some)).expect("determined");
    assert_eq!(fitted.validate(), Ok(()));
    assert!(worst(&fitted, &truth, &some) < 0.005);
    let all = worst(&fitted, &truth, &shapes());
    assert!(all < 0.12, "{all}");
    let beyond = [shape(40, 0), shape(250, 0)];
    assert!(worst(&fitted, &truth, &beyond) < 0.02, "the line goes on");
}

#[test]
fn a_bend_is_its_values_and_stays_at_the_last() {
    for (values, told) in [
        (&[][..], &[][..]),
        (&[0.0, 0.0], &[]),
        (&[7.0], &[7.0]),
        (&[1.0, 2.0, 2.0, 2.0], &[1.0, 2.0]),
        (&[3.0, 0.0], &[3.0, 0.0]),
        (
            &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0],
            &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0],
        ),
    ] {
        let bend = Bend::new(values);
        assert_eq!(bend.values(), told);
        assert_eq!(Bend::new(told), bend);
    }
    let bend = Bend::new(&[10.0, 20.0, 10.0]);
    let at = [0, 1, 2, 3, 4, 5, 256, u32::MAX].map(|decodes| bend.at(decodes));
    assert_eq!(at, [0.0, 10.0, 20.0, 15.0, 10.0, 10.0, 10.0, 10.0]);
}

#[test]
fn steps_of_too_few_kinds_determine_nothing() {
    let took = Span(9);
    assert_eq!(StepCost::fit(&[]), None);
    assert_eq!(StepCost::fit(&[(shape(1, 0), took), (shape(1, 0), took)]), None);
    let decodes = [1, 2, 3, 4].map(|decodes| (shape(decodes, 0), took));
    assert_eq!(StepCost::fit(&decodes), None, "no prompt");
    let prompts = [1, 2, 3, 4].map(|prefill| (shape(0, prefill), took));
    assert_eq!(StepCost::fit(&prompts), None, "nobody decodes");
    let timeless = [shape(1, 0), shape(2, 0), shape(0, 8)].map(|shape| (shape, Span::ZERO));
    assert_eq!(StepCost::fit(&timeless), None);
}

#[test]
fn a_machine_at_half_speed_is_followed_and_a_stall_is_not() {
    let mut cost = bent();
    let normal = cost.predict(shape(8, 0));
    cost.observe(shape(8, 0), normal.mul_f64(30.0));
    assert!(cost.gain < 1.5, "one stall: {}", cost.gain);
    for _ in 0..40 {
        cost.observe(shape(8, 0), normal.mul_f64(2.0));
    }
    assert!((cost.gain - 2.0).abs() < 0.05, "half speed: {}", cost.gain);
}

#[test]
fn nonsense_is_named() {
    let named = |cost: StepCost| cost.validate();
    let guess = StepCost::GUESS;
    assert_eq!(named(guess), Ok(()));
    assert_eq!(named(bent()), Ok(()));
    assert_eq!(named(StepCost { base_us: -1.0, ..guess }), Err("base_us"));
    assert_eq!(named(StepCost { per_cell_us: f64::NAN, ..guess }), Err("per_cell_us"));
    assert_eq!(named(StepCost { prompt_us: f64::INFINITY, ..guess }), Err("prompt_us"));
    assert_eq!(named(StepCost { per_tiled_cell_us: -0.1, ..guess }), Err("per_tiled_cell_us"));
    assert_eq!(named(StepCost { gain: 0.0, ..guess }), Err("gain"));
    for bend in [&[f64::NAN][..], &[-4_001.0], &[0.0, 0.0, -8_001.0], &[9_000.0, 4_999.0]] {
        assert_eq!(named(StepCost { bend: Bend::new(bend), ..guess }), Err("bend"), "{bend:?}");
    }
}

fn shapes_of(decodes: u32, prefill: u32) -> impl Strategy<Value = StepShape> {
    (0..decodes, 0..prefill, 0_u64..1 << 20, 0_u64..1 << 20).prop_map(
        |(decodes, prefill, decoded, prefill_cells)| StepShape {
            decodes,
            prefill,
            cells: decoded + prefill_cells,
            prefill_cells,
        },
    )
}

proptest! {
    /// Whatever was measured: fitted models are valid, and more never costs less.
    #[test]
    fn more_never_costs_less(
        measured in prop::collection::vec((shapes_of(40, 300), 1_u64..1 << 22), 0..40),
        shape in shapes_of(300, 600),
    ) {
        let steps: Vec<_> = measured.into_iter().map(|(shape, took)| (shape, Span(took))).collect();
        if let Some(cost) = StepCost::fit(&steps) {
            prop_assert_eq!(cost.validate(), Ok(()));
            let StepShape { decodes, prefill, cells, prefill_cells } = shape;
            let least = cost.predict(shape);
            for more in [
                StepShape { decodes: decodes + 1, ..shape },
                StepShape { prefill: prefill + 1, ..shape },
                StepShape { cells: cells + 1, ..shape },
                StepShape { cells: cells + 1, prefill_cells: prefill_cells + 1, ..shape },
            ] {
                prop_assert!(least <= cost.predict(more), "{:?} of {:?}", more, cost);
            }
        }
    }
}
