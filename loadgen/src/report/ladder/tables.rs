//! A ladder's tables.

use std::fmt;

use workload::{Slo, Stretch};

use super::{
    grid::{Grid, Stat},
    metric::{
        ALL, E2E_P50, E2E_P99, GOODPUT, HIT, IN_TIME, ITL_P99, Metric, SHED, TTFT_P50, TTFT_P99,
    },
    noise::{self, Floor, floor},
    worse,
};
use crate::summary::{Summary, quantile};

/// Columns of the grid.
const GRID: [Metric; 9] =
    [GOODPUT, IN_TIME, SHED, TTFT_P50, TTFT_P99, ITL_P99, E2E_P50, E2E_P99, HIT];
/// Columns of differences.
const DIFFERENCES: [Metric; 7] = [GOODPUT, IN_TIME, TTFT_P50, TTFT_P99, ITL_P99, E2E_P50, E2E_P99];
/// Multiples of the target.
const FACTORS: [f64; 5] = [0.5, 0.75, 1.0, 1.5, 2.0];

/// Rows under a head; empty without rows.
pub(super) struct Table {
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    fn new<T: ToString>(head: impl IntoIterator<Item = T>) -> Self {
        Self { head: head.into_iter().map(|name| name.to_string()).collect(), rows: Vec::new() }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.rows.is_empty() {
            return Ok(());
        }
        let rule = self.head.iter().map(|_| "---".to_owned()).collect();
        for row in [&self.head, &rule].into_iter().chain(&self.rows) {
            debug_assert_eq!(row.len(), self.head.len(), "every row has every column");
            let cells: Vec<_> = row.iter().map(|cell| cell.replace('|', "\\|")).collect();
            writeln!(out, "| {} |", cells.join(" | "))?;
        }
        Ok(())
    }
}

fn heading(metric: &Metric) -> String {
    format!("{}{}", metric.name, metric.unit.suffix())
}

fn show(stat: Option<Stat>, metric: &Metric) -> String {
    stat.map_or("-".into(), |stat| stat.show(metric))
}

pub(super) fn peak(grid: &Grid) -> Table {
    let columns = [TTFT_P50, TTFT_P99, ITL_P99, E2E_P99, HIT];
    let names = columns.iter().map(heading);
    let fixed = ["rung", "adds", "goodput, rps", "at, rps"].map(Into::into);
    let top = grid.rates.last().copied().unwrap_or(0.0);
    let last = format!("E2E p99 at {top} rps, s");
    let mut table = Table::new(fixed.into_iter().chain(names).chain([last]));
    for (place, rung) in grid.rungs.iter().enumerate() {
        let Some((rate, stat)) = grid.peak(place, &GOODPUT) else { continue };
        let mut row =
            vec![rung.title.clone(), rung.adds.clone(), stat.show(&GOODPUT), rate.to_string()];
        row.extend(columns.iter().map(|it| show(grid.stat(place, rate, it), it)));
        row.push(show(grid.stat(place, top, &E2E_P99), &E2E_P99));
        table.rows.push(row);
    }
    table
}

pub(super) fn grid(grid: &Grid) -> Table {
    let fixed = ["rung", "offered, rps", "seeds"].map(Into::into);
    let mut table = Table::new(fixed.into_iter().chain(GRID.iter().map(heading)));
    for (place, rung) in grid.rungs.iter().enumerate() {
        for rate in &grid.rates {
            let seeds = grid.at(place, *rate).count();
            if seeds == 0 {
                continue;
            }
            let mut row = vec![rung.title.clone(), rate.to_string(), seeds.to_string()];
            row.extend(GRID.iter().map(|it| show(grid.stat(place, *rate, it), it)));
            table.rows.push(row);
        }
    }
    table
}

/// Absent where no rung is compared with another.
pub(super) fn differences(grid: &Grid) -> Option<Table> {
    let fixed = ["rung", "against", "offered, rps"].map(Into::into);
    let names = DIFFERENCES.iter().map(|it| it.name.to_owned());
    let mut table = Table::new(fixed.into_iter().chain(names));
    for (place, rung) in grid.rungs.iter().enumerate() {
        let Some(against) = rung.against else { continue };
        for rate in &grid.rates {
            let means = |metric: &Metric| {
                let mean = |place| Some(grid.stat(place, *rate, metric)?.mean);
                Some((mean(against)?, mean(place)?))
            };
            if means(&GOODPUT).is_none() {
                continue;
            }
            let cell = |metric: &Metric| {
                means(metric).map_or("-".into(), |(before, after)| {
                    change(metric, before, after, floor(grid, metric, *rate))
                })
            };
            let mut row =
                vec![rung.title.clone(), grid.rungs[against].title.clone(), rate.to_string()];
            row.extend(DIFFERENCES.iter().map(cell));
            table.rows.push(row);
        }
    }
    (!table.rows.is_empty()).then_some(table)
}

/// A change with the noise floor beside it.
fn change(metric: &Metric, before: f64, after: f64, floor: Option<Floor>) -> String {
    let Some(change) = metric.unit.change(before, after) else {
        return format!("from 0 to {}", metric.unit.show(after));
    };
    let shown = metric.unit.show_change(change);
    let Some(floor) = floor else { return shown };
    let within = if change.abs() <= floor.spread { "~ " } else { "" };
    format!("{within}{shown} ({:.0} %)", floor.spread * 100.0)
}

pub(super) fn worse(grid: &Grid) -> Table {
    let mut table = Table::new([
        "rung",
        "against",
        "metric",
        "worst at, rps",
        "before",
        "after",
        "change",
        "loads",
    ]);
    for it in worse::all(grid) {
        let metric = &it.metric;
        table.rows.push(vec![
            grid.rungs[it.place].title.clone(),
            grid.rungs[it.against].title.clone(),
            heading(metric),
            it.rate.to_string(),
            metric.unit.show(it.before),
            metric.unit.show(it.after),
            change(metric, it.before, it.after, it.floor),
            format!("{} of {}", it.loads.0, it.loads.1),
        ]);
    }
    table
}

/// Absent where there is no target.
pub(super) fn sensitivity(grid: &Grid) -> Option<Table> {
    let names = FACTORS.map(|factor| format!("x{factor}"));
    let mut table = Table::new([String::from("rung")].into_iter().chain(names));
    for (place, rung) in grid.rungs.iter().enumerate() {
        let peak = |factor: f64| {
            let at = |rate: &f64| {
                let each = grid.at(place, *rate).filter_map(|it| {
                    let slo = scaled(&it.slo, factor);
                    Some((Summary::of(&it.run, &slo).goodput_rps?, false))
                });
                Some((*rate, Stat::of(each)?.mean))
            };
            let best = grid.rates.iter().filter_map(at).max_by(|a, b| a.1.total_cmp(&b.1));
            best.map_or("-".into(), |(rate, mean)| format!("{mean:.2} at {rate}"))
        };
        let cells = FACTORS.map(peak);
        table.rows.push([rung.title.clone()].into_iter().chain(cells).collect());
    }
    (!grid.from.slo.is_empty()).then_some(table)
}

fn scaled(slo: &Slo, factor: f64) -> Slo {
    let times = |target: Option<units::Span>| target.map(|target| target.mul_f64(factor));
    let stretch = slo.stretch.map(|it| Stretch { factor: it.factor * factor, ..it });
    Slo {
        e2e: times(slo.e2e),
        ttft: times(slo.ttft),
        itl: times(slo.itl),
        tpot: times(slo.tpot),
        stretch,
    }
}

/// Absent where nothing was measured twice.
pub(super) fn noise(grid: &Grid) -> Option<Table> {
    let groups = noise::equals(grid);
    let mut table =
        Table::new(["metric".to_owned()].into_iter().chain(groups.iter().map(|group| {
            let title = &grid.rungs[group[0].cell.place].title;
            format!("{title} at {} rps, {} times", group[0].rate, group.len())
        })));
    for metric in ALL {
        let cells = groups.iter().map(|group| {
            let values = group.iter().filter_map(|it| (metric.get)(it));
            let stat = Stat::of(values.map(|it| (it.value, it.at_least)));
            let spread = noise::spread(group, &metric);
            let spread = spread.map_or("-".into(), |it| format!("{:.1} %", it * 100.0));
            format!("{spread}: {}", show(stat, &metric))
        });
        table.rows.push([heading(&metric)].into_iter().chain(cells).collect());
    }
    (!groups.is_empty()).then_some(table)
}

/// Absent where nothing was probed.
pub(super) fn probes(grid: &Grid) -> Option<Table> {
    let mut table = Table::new(["before cells of", "probes", "prefill", "decode"]);
    let mut row = |title: &str, place: Option<usize>| {
        let cells = || {
            let here = move |cell: usize| place.is_none_or(|place| place == cell);
            grid.points.iter().filter(move |it| here(it.cell.place) && !it.cell.probes.is_empty())
        };
        let median = |get: fn(&crate::record::Probe) -> f64| {
            let each = cells().map(|it| {
                let mut values: Vec<f64> = it.cell.probes.iter().map(get).collect();
                values.sort_by(f64::total_cmp);
                (quantile(&values, 0.5), false)
            });
            Stat::of(each)
        };
        let shown = |stat: Stat| {
            let varied = (stat.high - stat.low) / stat.mean * 100.0;
            format!("{:.1} [{:.1}, {:.1}], {varied:.1} %", stat.mean, stat.low, stat.high)
        };
        let (Some(prefill), Some(decode)) = (median(prefill_rate), median(decode_rate)) else {
            return;
        };
        table.rows.push(vec![
            title.into(),
            cells().map(|it| it.cell.probes.len()).sum::<usize>().to_string(),
            shown(prefill),
            shown(decode),
        ]);
    };
    for (place, rung) in grid.rungs.iter().enumerate() {
        row(&rung.title, Some(place));
    }
    row("all", None);
    (!table.rows.is_empty()).then_some(table)
}

fn prefill_rate(probe: &crate::record::Probe) -> f64 {
    f64::from(probe.prompt_tokens) / (probe.ttft_us.max(1) as f64 / 1e6)
}

/// Of the tokens after the first.
fn decode_rate(probe: &crate::record::Probe) -> f64 {
    f64::from(probe.tokens.saturating_sub(1)) / (probe.decode_us.max(1) as f64 / 1e6)
}

/// Absent where there are none.
pub(super) fn spoiled(grid: &Grid) -> Option<Table> {
    let mut table = Table::new(["cell", "why"]);
    table.rows.extend(grid.spoiled.iter().map(|it| vec![it.name.clone(), it.why.clone()]));
    (!table.rows.is_empty()).then_some(table)
}
