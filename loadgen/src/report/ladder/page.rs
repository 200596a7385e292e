//! What a ladder's page has on it, in order.

use std::fmt::Write as _;

use units::Span;

use super::{
    Page, curves,
    grid::Grid,
    noise,
    tables::{self, Table},
};

/// The folder of figures, beside the document.
pub(super) const FIGURES: &str = "figures";

pub(super) fn of(grid: &Grid) -> Page {
    let figures = curves::all(grid);
    let mut text = head(grid);
    for figure in &figures {
        writeln!(text, "![{}]({FIGURES}/{}.svg)\n", figure.title, figure.file)
            .expect("a string takes everything");
    }
    let several = grid.rates.len() > 1;
    section(&mut text, "Peak goodput", PEAK, several.then(|| tables::peak(grid)));
    section(&mut text, "Differences", &differences(grid), tables::differences(grid));
    section(&mut text, "What got worse", WORSE, Some(tables::worse(grid)));
    section(&mut text, "All cells", GRID, Some(tables::grid(grid)));
    section(&mut text, "Goodput by target", SLO, tables::sensitivity(grid));
    section(&mut text, "Noise floor", NOISE, tables::noise(grid));
    section(&mut text, "The machine meanwhile", PROBE, tables::probes(grid));
    section(&mut text, "Cells that say nothing", "", tables::spoiled(grid));
    text.truncate(text.trim_end().len());
    text.push('\n');
    Page { name: grid.cell.ladder.clone(), text, figures }
}

const PEAK: &str =
    "The highest mean over seeds, the load at which it is reached, and what else holds there.";
const WORSE: &str = "Every metric that a rung worsened by more than 5 % (of a share: 5 points) against the rung that \
    it is compared with, where it is worst. In parentheses the noise floor; what lies below it is marked with ~.";
const GRID: &str = "Means over seeds, with the lowest and the highest in brackets. Latencies are of whole answers, \
    and of requests that were given up, which took at least (≥) as long as they waited.";
const SLO: &str = "Peak goodput in requests a second, and the load at which it is reached, if the target were so \
    many times what it is.";
const NOISE: &str = "How far equal cells lie apart, in percent of their mean (shares: in points): the same rung, load \
    and seed, measured at different times of the ladder.";
const PROBE: &str =
    "The same answers on the idle engine before every cell, past admission, in tokens a second.";

fn section(out: &mut String, title: &str, text: &str, table: Option<Table>) {
    let Some(table) = table else { return };
    let text = if text.is_empty() { String::new() } else { format!("{text}\n\n") };
    let table = table.to_string();
    let table = if table.is_empty() { "Nothing.\n".into() } else { table };
    write!(out, "### {title}\n\n{text}{table}\n").expect("a string takes everything");
}

fn differences(grid: &Grid) -> String {
    let floor = if noise::equals(grid).is_empty() {
        "No cell was measured twice, so there is no noise floor."
    } else {
        "In parentheses the noise floor: how far equal cells lie apart at this load or, where none was measured \
         twice, anywhere. What lies below it is marked with ~."
    };
    format!("Each rung against the one that it is compared with; shares in points. {floor}")
}

fn head(grid: &Grid) -> String {
    let (from, origin) = (&grid.from, &grid.cell.origin);
    let secs = |micros| Span(micros).as_secs_f64();
    let rates: Vec<_> = grid.rates.iter().map(ToString::to_string).collect();
    let seeds: Vec<_> = grid.seeds.iter().map(ToString::to_string).collect();
    let model = origin.model.as_ref();
    let model = model.map_or_else(String::new, |(name, hash)| format!(", model {name} ({hash})"));
    let source = origin.source.as_ref();
    let source = source.map_or_else(String::new, |source| format!(", source {source}"));
    let machine = grid.machine();
    let cpu = machine.cpu_model.as_deref().unwrap_or("of an unknown kind");
    format!(
        "{} cells of {} rungs at {} rps, seeds {}: {}, {} arrivals for {} s of which the first {} s do not count, \
         answers waited for up to {} s after that; in time is {}. Measured in {}{source}{model}, on {} processors \
         ({cpu}, {} {}).\n\n",
        grid.points.len(),
        grid.rungs.len(),
        rates.join(", "),
        seeds.join(", "),
        from.workload,
        from.arrivals,
        secs(from.duration_us),
        secs(from.warmup_us),
        secs(from.drain_us.unwrap_or(0)),
        from.slo,
        if origin.runner == "machine" { "real time" } else { &origin.runner },
        machine.cpus,
        machine.os,
        machine.arch,
    )
}
