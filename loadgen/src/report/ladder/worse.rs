//! What got worse: a ladder on which every rung improves everything is not believed, and rightly so.
//!
//! The rule: every metric that a rung worsened by more than 5 % (of a share: by more than 5 points) against
//! the rung that it is compared with, at any load; shown at the load where it is worst.

use super::{
    grid::Grid,
    metric::{ALL, Better, Metric},
    noise::{Floor, floor},
};

/// What may get worse without being told.
const THRESHOLD: f64 = 0.05;

/// One metric that one rung worsened.
pub(super) struct Worse {
    pub(super) place: usize,
    pub(super) against: usize,
    pub(super) metric: Metric,
    /// The load where it is worst, and the means there.
    pub(super) rate: f64,
    pub(super) before: f64,
    pub(super) after: f64,
    pub(super) floor: Option<Floor>,
    /// Loads at which it is worse, of those at which it can be compared.
    pub(super) loads: (usize, usize),
}

/// All of it, by rung.
pub(super) fn all(grid: &Grid) -> Vec<Worse> {
    let pairs = grid.rungs.iter().enumerate().filter_map(|(place, it)| Some((place, it.against?)));
    let each = pairs.flat_map(|pair| ALL.into_iter().map(move |metric| (pair, metric)));
    each.filter_map(|((place, against), metric)| worse(grid, place, against, metric)).collect()
}

fn worse(grid: &Grid, place: usize, against: usize, metric: Metric) -> Option<Worse> {
    let compared: Vec<_> = grid
        .rates
        .iter()
        .filter_map(|rate| {
            let mean = |place| Some(grid.stat(place, *rate, &metric)?.mean);
            Some((*rate, mean(against)?, mean(place)?))
        })
        .collect();
    let bad = |(_, before, after): &(f64, f64, f64)| badness(&metric, *before, *after);
    let loads = compared.iter().filter(|it| bad(it) > THRESHOLD).count();
    let worst = compared.iter().max_by(|a, b| bad(a).total_cmp(&bad(b)))?;
    let (rate, before, after) = *worst;
    (loads > 0).then(|| Worse {
        place,
        against,
        metric,
        rate,
        before,
        after,
        floor: floor(grid, &metric, rate),
        loads: (loads, compared.len()),
    })
}

/// How much worse it is; below 0 where it is better.
fn badness(metric: &Metric, before: f64, after: f64) -> f64 {
    let change = metric.unit.change(before, after).unwrap_or(f64::INFINITY);
    match metric.better {
        Better::Lower => change,
        Better::Higher => -change,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{grid::Grid, metric::Unit};
    use crate::{
        record::{Cell, Row, Run, cell_example, example, example_row},
        wire::Class,
    };

    /// A cell whose answers all take `e2e_ms`, of which one of four is refused if it says so.
    fn cell(rung: &str, place: usize, rate: f64, e2e_ms: u64, refuses: bool) -> (Cell, Run) {
        let against = (place > 0).then(|| "one".to_owned());
        let facts = Cell { rung: rung.into(), place, against, ..cell_example() };
        let row = |index: u64| Row {
            index,
            intended_us: index * 1_000_000,
            started_us: index * 1_000_000,
            last_token_us: Some(index * 1_000_000 + e2e_ms * 1_000),
            end_us: index * 1_000_000 + e2e_ms * 1_000,
            class: if refuses && index == 0 { Class::Shed } else { Class::Ok },
            ..example_row()
        };
        // It ends when everything else has, and so keeps rates apart from latencies.
        let last = Row { index: 4, end_us: 20_000_000, ..example_row() };
        let mut run = example((0..4).map(row).chain([last]).collect());
        run.provenance.duration_us = 4_000_000;
        run.provenance.rate = Some(rate);
        (facts, run)
    }

    fn check(cells: Vec<(Cell, Run)>, wanted: &[(&str, f64, usize)]) {
        let grid = Grid::of(cells, None).expect("a ladder");
        let found: Vec<_> =
            super::all(&grid).iter().map(|it| (it.metric.name, it.rate, it.loads.0)).collect();
        assert_eq!(found, wanted);
    }

    #[test]
    fn five_percent_may_get_worse_and_six_may_not() {
        let ladder =
            |second| vec![cell("one", 0, 1.0, 1_000, false), cell("two", 1, 1.0, second, false)];
        check(ladder(1_049), &[]);
        check(ladder(900), &[]);
        check(ladder(1_060), &[("E2E p50", 1.0, 1), ("E2E p99", 1.0, 1)]);
    }

    #[test]
    fn it_is_shown_where_it_is_worst() {
        let cells = vec![
            cell("one", 0, 1.0, 1_000, false),
            cell("one", 0, 2.0, 1_000, false),
            cell("two", 1, 1.0, 1_200, false),
            cell("two", 1, 2.0, 1_500, false),
        ];
        check(cells, &[("E2E p50", 2.0, 2), ("E2E p99", 2.0, 2)]);
    }

    #[test]
    fn refusing_is_worse_and_so_is_what_it_costs() {
        let cells = vec![cell("one", 0, 1.0, 1_000, false), cell("two", 1, 1.0, 1_000, true)];
        let worse =
            [("goodput", 1.0, 1), ("in time", 1.0, 1), ("completed", 1.0, 1), ("refused", 1.0, 1)];
        check(cells, &worse);
        assert_eq!(Unit::Share.change(0.0, 0.25), Some(0.25));
    }

    #[test]
    fn what_equals_differ_by_is_the_floor() {
        let again = |nth, e2e| {
            let (cell_, run) = cell("two", 1, 1.0, e2e, false);
            (Cell { replicate: nth, ..cell_ }, run)
        };
        let cells = vec![cell("one", 0, 1.0, 500, false), again(0, 1_000), again(1, 1_100)];
        let grid = Grid::of(cells, None).expect("a ladder");
        let worse = super::all(&grid);
        let floor = worse[0].floor.expect("replicates");
        assert!(floor.is_here && (floor.spread - 0.1 / 1.05).abs() < 1e-9, "{floor:?}");
        assert_eq!(
            (worse[0].before, worse[0].after),
            (0.5, 1.0),
            "replicates are no further seeds"
        );
    }
}
