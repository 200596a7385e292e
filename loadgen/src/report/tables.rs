//! Runs as Markdown.

use std::{fmt::Write as _, iter};

use super::Named;
use crate::summary::{Spread, Summary, tenths};

/// A column's name, and what a run has in it.
type Column = (&'static str, fn(&Summary) -> String);

/// Columns of the first table.
const RATES: [Column; 7] = [
    ("requests", |it| it.requests.to_string()),
    ("offered rps", |it| format!("{:.3}", it.offered_rps)),
    ("completed rps", |it| format!("{:.3}", it.completed_rps)),
    ("goodput rps", |it| it.goodput_rps.map_or("-".into(), |rps| format!("{rps:.3}"))),
    ("in time", |it| it.goodput_share.map_or("-".into(), percent)),
    ("shed", |it| percent(it.shed_share)),
    ("failed", |it| percent(it.failed_share)),
];

/// The same of the second.
const LATENCIES: [Column; 8] = [
    ("TTFT p50", |it| millis(it.ttft_ms, |of| of.p50)),
    ("TTFT p99", |it| millis(it.ttft_ms, |of| of.p99)),
    ("ITL p50", |it| millis(it.itl_ms, |of| of.p50)),
    ("ITL p99", |it| millis(it.itl_ms, |of| of.p99)),
    ("E2E p50", |it| millis(it.e2e_ms, |of| of.p50)),
    ("E2E p99", |it| millis(it.e2e_ms, |of| of.p99)),
    ("E2E p99 from send", |it| millis(it.e2e_from_send_ms, |of| of.p99)),
    ("slip p99", |it| millis(it.slip_ms, |of| of.p99)),
];

/// Two tables and what is wrong with the runs.
pub(super) fn markdown(runs: &[Named]) -> String {
    let mut out = String::from("# Runs\n\n");
    for named in runs {
        let it = &named.summary;
        let rate = it.rate.map_or_else(String::new, |rate| format!(" at {rate} rps"));
        let targets = if it.slo.is_empty() { "none" } else { &it.slo };
        writeln!(
            out,
            "- **{}**: {}, {}{rate}, seed {}, {} s against {} ({}); targets: {targets}{}",
            named.name,
            it.workload,
            it.arrivals,
            it.seed,
            tenths(it.window_s),
            it.url,
            it.model,
            caveats(it)
        )
        .expect("a string takes everything");
    }
    out.push('\n');
    table(&mut out, runs, &RATES);
    out += "\nMilliseconds, of whole answers, from the intended arrival:\n\n";
    table(&mut out, runs, &LATENCIES);
    out
}

fn caveats(it: &Summary) -> String {
    let partial = (!it.complete).then(|| "; PARTIAL".to_owned());
    let invalid = it.invalid.as_ref().map(|why| format!("; INVALID: {why}"));
    partial.into_iter().chain(invalid).collect()
}

fn table(out: &mut String, runs: &[Named], columns: &[Column]) {
    let mut line = |cells: &mut dyn Iterator<Item = String>| {
        let cells: Vec<_> = cells.collect();
        writeln!(out, "| {} |", cells.join(" | ")).expect("a string takes everything");
    };
    let names = columns.iter().map(|(name, _)| (*name).to_owned());
    line(&mut iter::once("run".to_owned()).chain(names));
    line(&mut (0..=columns.len()).map(|_| "---".to_owned()));
    for named in runs {
        let cells = columns.iter().map(|(_, get)| get(&named.summary));
        line(&mut iter::once(named.name.clone()).chain(cells));
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn millis(spread: Option<Spread>, get: impl Fn(Spread) -> f64) -> String {
    spread.map_or("-".into(), |spread| format!("{:.1}", get(spread)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{example, example_row};

    #[test]
    fn every_table_has_as_many_cells_in_each_line() {
        let run = example(vec![example_row()]);
        let slo = run.provenance.slo.parse().expect("targets");
        let summary = Summary::of(&run, &slo);
        let text = markdown(&[Named { name: "one".into(), run, slo, summary }]);
        let paragraphs = text.split("\n\n").filter(|part| part.starts_with('|'));
        let cells =
            paragraphs.map(|part| part.lines().map(|line| line.split('|').count()).collect());
        assert_eq!(cells.collect::<Vec<Vec<_>>>(), [vec![10; 3], vec![11; 3]], "{text}");
        assert!(text.contains("targets: e2e:4000"), "{text}");
    }
}
