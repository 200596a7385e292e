//! What the figures show.

use units::Span;
use workload::{Slo, Verdict};

use super::Named;
use crate::{record::Row, summary::quantile, wire::Class};

/// A figure, ready to be drawn.
pub(super) struct Figure {
    /// Its file's name without the end.
    pub(super) file: String,
    pub(super) title: String,
    pub(super) x: &'static str,
    pub(super) y: &'static str,
    pub(super) log_x: bool,
    pub(super) log_y: bool,
    /// Where the names of series are: beside the chart, or in its upper left corner.
    pub(super) legend_beside: bool,
    pub(super) series: Vec<Series>,
}

/// One run's part of a figure.
pub(super) struct Series {
    pub(super) name: String,
    pub(super) line: Vec<(f64, f64)>,
    pub(super) points: Vec<(f64, f64)>,
    /// From where to where values go: x, lowest, highest.
    pub(super) band: Vec<(f64, f64, f64)>,
    /// Which colour: that of its run.
    pub(super) colour: usize,
    pub(super) is_faint: bool,
    /// Whether what lies between the points of the line was not measured.
    pub(super) is_marked: bool,
}

/// Parts of a run over which a line is drawn.
const PARTS: u64 = 24;
/// Points of a run that are drawn: more are a blot.
const POINTS_MAX: usize = 1_500;
/// Points of a curve.
const CURVE: usize = 200;

/// All of those for which there is data.
pub(super) fn all(runs: &[Named]) -> Vec<Figure> {
    let all = [
        latency_over_time(runs),
        distribution(runs, "ttft", "Time to first token", |row| row.ttft()),
        distribution(runs, "e2e", "Time to last token", |row| Some(row.e2e())),
        goodput(runs),
        admitted(runs),
    ];
    let has_data = |figure: &Figure| {
        figure.series.iter().any(|one| !one.line.is_empty() || !one.points.is_empty())
    };
    all.into_iter().filter(has_data).collect()
}

fn series(
    runs: &[Named],
    get: impl Fn(&Named) -> (Vec<(f64, f64)>, Vec<(f64, f64)>),
) -> Vec<Series> {
    let one = |(colour, named): (usize, &Named)| {
        let (line, points) = get(named);
        Series {
            name: named.name.clone(),
            line,
            points,
            band: Vec::new(),
            colour,
            is_faint: false,
            is_marked: false,
        }
    };
    runs.iter().enumerate().map(one).collect()
}

fn counted(named: &Named) -> impl Iterator<Item = &Row> {
    named.run.rows.iter().filter(|row| !row.warmup)
}

fn answered(named: &Named) -> impl Iterator<Item = &Row> {
    counted(named).filter(|row| row.class == Class::Ok)
}

pub(super) fn latency_over_time(runs: &[Named]) -> Figure {
    let series = series(runs, |named| {
        let all: Vec<_> = answered(named).map(|row| (secs(row), row.e2e().as_secs_f64())).collect();
        let every = all.len().div_ceil(POINTS_MAX).max(1);
        let medians = parts(named).filter_map(|(middle, rows)| {
            let mut e2e: Vec<_> = rows
                .iter()
                .filter(|row| row.class == Class::Ok)
                .map(|row| row.e2e().as_secs_f64())
                .collect();
            e2e.sort_by(f64::total_cmp);
            (!e2e.is_empty()).then(|| (middle, quantile(&e2e, 0.5)))
        });
        (medians.collect(), all.into_iter().step_by(every).collect())
    });
    Figure {
        file: "latency-over-time".into(),
        title: "Time to last token by arrival (lines: medians)".into(),
        x: "intended arrival, s",
        y: "s",
        log_x: false,
        log_y: true,
        legend_beside: false,
        series,
    }
}

fn distribution(
    runs: &[Named],
    file: &str,
    what: &str,
    get: impl Fn(&Row) -> Option<Span>,
) -> Figure {
    let series = series(runs, |named| {
        let mut values: Vec<_> =
            answered(named).filter_map(&get).map(|span| span.as_secs_f64().max(1e-6)).collect();
        values.sort_by(f64::total_cmp);
        let curve = (0..=CURVE).map(|at| at as f64 / CURVE as f64);
        let line = if values.is_empty() {
            Vec::new()
        } else {
            curve.map(|share| (quantile(&values, share), share)).collect()
        };
        (line, Vec::new())
    });
    Figure {
        file: file.into(),
        title: format!("{what} from intended arrival, whole answers"),
        x: "s",
        y: "share of answers",
        log_x: true,
        log_y: false,
        legend_beside: false,
        series,
    }
}

fn goodput(runs: &[Named]) -> Figure {
    let mut series = series(runs, |named| {
        let mut e2e: Vec<_> = answered(named)
            .filter(|row| {
                let others = Slo { e2e: None, ..named.slo };
                row.judge(&others) == Some(Verdict::Met)
            })
            .map(|row| row.e2e().as_secs_f64().max(1e-6))
            .collect();
        e2e.sort_by(f64::total_cmp);
        let per_second = 1.0 / named.summary.window_s.max(1e-9);
        let step = (e2e.len() / CURVE).max(1);
        let counts = e2e.iter().enumerate().map(|(at, secs)| (*secs, (at + 1) as f64 * per_second));
        let last = counts.clone().next_back();
        (counts.step_by(step).chain(last).collect(), Vec::new())
    });
    // Later targets find nothing more: a curve that ended would look as if it had not been measured.
    let end = series.iter().filter_map(|one| Some(one.line.last()?.0)).fold(0.0, f64::max);
    for one in &mut series {
        let last = one.line.last().map(|(_, rate)| (end, *rate));
        one.line.extend(last);
    }
    Figure {
        file: "goodput".into(),
        title: "Goodput by E2E target (other targets as they are)".into(),
        x: "target, s",
        y: "answers in time, a second",
        log_x: true,
        log_y: false,
        legend_beside: false,
        series,
    }
}

fn admitted(runs: &[Named]) -> Figure {
    let rate = |named: &Named, keep: fn(&Row) -> bool| {
        let length = named.summary.window_s / PARTS as f64;
        let rates = parts(named).map(|(middle, rows)| {
            let kept = rows.iter().filter(|row| keep(row)).count();
            (middle, kept as f64 / length.max(1e-9))
        });
        rates.collect::<Vec<_>>()
    };
    let mut all = series(runs, |named| (rate(named, |row| row.class != Class::Shed), Vec::new()));
    // One arrival curve would hide the other; with one run both can be read.
    if let [named] = runs {
        let line = rate(named, |_| true);
        let name = "offered".into();
        all[0].name = "admitted".into();
        // Below the other, which it equals where nothing is shed.
        all.insert(
            0,
            Series {
                name,
                line,
                points: Vec::new(),
                band: Vec::new(),
                colour: 7,
                is_faint: true,
                is_marked: false,
            },
        );
    }
    Figure {
        file: "admitted-over-time".into(),
        title: "Requests that were not shed, by arrival".into(),
        x: "intended arrival, s",
        y: "requests a second",
        log_x: false,
        log_y: false,
        legend_beside: false,
        series: all,
    }
}

fn secs(row: &Row) -> f64 {
    Span(row.intended_us).as_secs_f64()
}

/// The counted rows of each part, and the part's middle in seconds.
fn parts(named: &Named) -> impl Iterator<Item = (f64, Vec<&Row>)> {
    let start = Span(named.run.provenance.warmup_us).as_secs_f64();
    let length = named.summary.window_s / PARTS as f64;
    (0..PARTS).map(move |part| {
        let from = start + length * part as f64;
        let inside = |row: &&Row| secs(row) >= from && secs(row) < from + length;
        (from + length / 2.0, counted(named).filter(inside).collect())
    })
}
