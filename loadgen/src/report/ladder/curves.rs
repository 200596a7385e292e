//! A ladder's figures.

use super::{
    super::{
        Named,
        figures::{Figure, Series, latency_over_time},
    },
    grid::{Grid, Point},
    metric::{E2E_P99, GOODPUT, Metric},
};

/// All of those for which there is data.
pub(super) fn all(grid: &Grid) -> Vec<Figure> {
    let name = &grid.cell.ladder;
    let against_load = [
        curve(grid, &E2E_P99, "e2e-p99", "p99 of time to last token", "seconds", true),
        curve(
            grid,
            &GOODPUT,
            "goodput",
            &format!("Goodput: within {}", grid.from.slo),
            "requests a second",
            false,
        ),
    ];
    let against_load = against_load.into_iter().filter(|_| grid.rates.len() > 1);
    let mut figures: Vec<_> = against_load.chain(over_time(grid)).collect();
    figures.retain(|figure| figure.series.iter().any(|one| !one.line.is_empty()));
    for figure in &mut figures {
        figure.file = format!("{name}-{}", figure.file);
        figure.legend_beside = true;
    }
    figures
}

/// A metric against the offered load: means over seeds, and from the lowest to the highest.
fn curve(
    grid: &Grid,
    metric: &Metric,
    file: &str,
    what: &str,
    y: &'static str,
    log_y: bool,
) -> Figure {
    let series = grid.rungs.iter().enumerate().map(|(place, rung)| {
        let stats: Vec<_> = grid
            .rates
            .iter()
            .filter_map(|rate| Some((*rate, grid.stat(place, *rate, metric)?)))
            .collect();
        let line: Vec<_> = stats.iter().map(|(rate, stat)| (*rate, stat.mean)).collect();
        let several = grid.seeds.len() > 1;
        let band = stats.iter().map(|(rate, stat)| (*rate, stat.low, stat.high));
        Series {
            name: rung.title.clone(),
            line,
            points: Vec::new(),
            band: if several { band.collect() } else { Vec::new() },
            colour: place,
            is_faint: false,
            is_marked: true,
        }
    });
    Figure {
        file: file.into(),
        title: what.into(),
        x: "offered load, requests a second",
        y,
        log_x: false,
        log_y,
        legend_beside: true,
        series: series.collect(),
    }
}

/// Latency by arrival, at the first load beyond the best rung's peak: where rungs part.
fn over_time(grid: &Grid) -> Option<Figure> {
    let peaks = (0..grid.rungs.len()).filter_map(|place| grid.peak(place, &GOODPUT));
    let (best, _) = peaks.max_by(|a, b| a.1.mean.total_cmp(&b.1.mean))?;
    let rate = grid.rates.iter().copied().find(|rate| *rate > best).unwrap_or(best);
    let seed = grid.seeds.first()?;
    let points: Vec<&Point> = (0..grid.rungs.len())
        .filter_map(|place| grid.at(place, rate).find(|it| it.run.provenance.seed == *seed))
        .collect();
    let named: Vec<Named> = points
        .iter()
        .map(|it| Named {
            name: grid.rungs[place(grid, it)].title.clone(),
            run: it.run.clone(),
            slo: it.slo,
            summary: it.summary.clone(),
        })
        .collect();
    let mut figure = latency_over_time(&named);
    for (series, point) in figure.series.iter_mut().zip(&points) {
        series.colour = place(grid, point);
    }
    figure.y = "seconds";
    figure.title = format!("Time to last token by arrival, {rate} rps (lines: medians)");
    Some(figure)
}

/// The place of a point's rung among those of the grid.
fn place(grid: &Grid, point: &Point) -> usize {
    let found = grid.rungs.iter().position(|rung| rung.name == point.cell.rung);
    found.expect("every point is of a rung")
}
