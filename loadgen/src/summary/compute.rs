//! The numbers.

use std::collections::BTreeMap;

use serde::Serialize;
use units::Span;
use workload::{Slo, Verdict};

use super::Spread;
use crate::{
    record::{Row, Run},
    wire::Class,
};

/// A run that was later than this with any request says nothing.
const SLIP_MAX: Span = Span::from_millis(250);
/// Parts of a run whose latencies are shown one by one.
const WINDOWS: u64 = 4;

/// A run in numbers. Latencies are of whole answers, in milliseconds, and count from the intended
/// arrival unless their name says otherwise. Rates are per second.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Summary {
    pub(crate) url: String,
    pub(crate) model: String,
    pub(crate) arrivals: String,
    pub(crate) workload: String,
    pub(crate) rate: Option<f64>,
    pub(crate) seed: u64,
    pub(crate) slo: String,
    /// Whether all that was scheduled was sent and ended.
    pub(crate) complete: bool,
    /// Why nothing of this may be believed.
    pub(crate) invalid: Option<String>,
    /// For how long the requests arrived that are counted.
    pub(crate) window_s: f64,
    /// Until the last of them had ended.
    pub(crate) until_end_s: f64,
    /// Requests that are counted: those after the warm-up.
    pub(crate) requests: usize,
    /// How they ended.
    pub(crate) classes: BTreeMap<&'static str, usize>,
    pub(crate) attempts: f64,
    pub(crate) offered_rps: f64,
    /// Whole answers, until the last request had ended.
    pub(crate) completed_rps: f64,
    pub(crate) output_tokens_per_s: f64,
    /// Answers that met every target, by the time in which they arrived; absent without targets.
    pub(crate) goodput_rps: Option<f64>,
    pub(crate) goodput_share: Option<f64>,
    pub(crate) shed_share: f64,
    pub(crate) failed_share: f64,
    pub(crate) e2e_ms: Option<Spread>,
    pub(crate) ttft_ms: Option<Spread>,
    pub(crate) itl_ms: Option<Spread>,
    pub(crate) tpot_ms: Option<Spread>,
    pub(crate) e2e_from_send_ms: Option<Spread>,
    pub(crate) ttft_from_send_ms: Option<Spread>,
    /// How late requests were started: this program's fault.
    pub(crate) slip_ms: Option<Spread>,
    /// How late a timer on the receiving threads was at worst.
    pub(crate) lag_ms_max: f64,
    /// Distance and p-value of the scheduled gaps.
    pub(crate) ks: Option<(f64, f64)>,
    pub(crate) asked_prompt_tokens: u64,
    pub(crate) prompt_tokens: u64,
    pub(crate) cached_tokens: u64,
    pub(crate) output_tokens: u64,
    /// What was promised, and whether it was kept.
    pub(crate) tiers: BTreeMap<String, Tier>,
    pub(crate) windows: Vec<Window>,
}

/// Answers of one tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Tier {
    pub(crate) requests: usize,
    /// Those with a bound, and those of them that kept it, counted from sending.
    pub(crate) bounded: usize,
    pub(crate) kept: usize,
}

/// A part of a run, by arrival.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Window {
    pub(crate) from_s: f64,
    pub(crate) to_s: f64,
    pub(crate) requests: usize,
    pub(crate) ok: usize,
    pub(crate) shed: usize,
    pub(crate) e2e_ms: Option<Spread>,
}

impl Summary {
    /// Counts `run` against `slo`.
    pub(crate) fn of(run: &Run, slo: &Slo) -> Self {
        let from = &run.provenance;
        let rows: Vec<&Row> = run.rows.iter().filter(|row| !row.warmup).collect();
        let ok: Vec<&Row> = rows.iter().copied().filter(|row| row.class == Class::Ok).collect();
        let complete = from.end.as_ref().is_some_and(|end| end.complete);
        let window = window(run, complete);
        let until_end = rows.iter().map(|row| row.end_us).max().unwrap_or(0);
        let until_end_s = Span(until_end.saturating_sub(from.warmup_us)).as_secs_f64();
        let share = |count: usize| count as f64 / rows.len().max(1) as f64;
        let rate = |count: f64, secs: f64| if secs > 0.0 { count / secs } else { 0.0 };
        let good = ok.iter().filter(|row| row.judge(slo) == Some(Verdict::Met)).count();
        let good = (!slo.is_empty()).then_some(good);
        let shed = rows.iter().filter(|row| row.class == Class::Shed).count();
        let sum = |get: fn(&Row) -> u32| ok.iter().map(|row| u64::from(get(row))).sum::<u64>();
        let output_tokens = sum(Row::tokens);
        let attempts: u32 = rows.iter().map(|row| row.attempts).sum();
        Self {
            url: from.url.clone(),
            model: from.model.clone(),
            arrivals: from.arrivals.clone(),
            workload: from.workload.clone(),
            rate: from.rate,
            seed: from.seed,
            slo: slo.to_string(),
            complete,
            invalid: invalid(run),
            window_s: window.as_secs_f64(),
            until_end_s,
            requests: rows.len(),
            classes: classes(&rows),
            attempts: f64::from(attempts) / rows.len().max(1) as f64,
            offered_rps: rate(rows.len() as f64, window.as_secs_f64()),
            completed_rps: rate(ok.len() as f64, until_end_s),
            output_tokens_per_s: rate(output_tokens as f64, until_end_s),
            goodput_rps: good.map(|good| rate(good as f64, window.as_secs_f64())),
            goodput_share: good.map(share),
            shed_share: share(shed),
            failed_share: share(rows.len() - ok.len() - shed),
            e2e_ms: Spread::of(ok.iter().map(|row| row.e2e())),
            ttft_ms: Spread::of(ok.iter().filter_map(|row| row.ttft())),
            itl_ms: Spread::of(ok.iter().flat_map(|row| gaps(row))),
            tpot_ms: Spread::of(ok.iter().filter_map(|row| row.tpot())),
            e2e_from_send_ms: Spread::of(ok.iter().map(|row| row.since_send(row.e2e()))),
            ttft_from_send_ms: Spread::of(
                ok.iter().filter_map(|row| Some(row.since_send(row.ttft()?))),
            ),
            slip_ms: Spread::of(rows.iter().map(|row| row.slip())),
            lag_ms_max: lag(run).as_secs_f64() * 1e3,
            ks: from.ks,
            asked_prompt_tokens: sum(|row| row.asked_prompt_tokens),
            prompt_tokens: sum(|row| row.prompt_tokens.unwrap_or(0)),
            cached_tokens: sum(|row| row.cached_tokens.unwrap_or(0)),
            output_tokens,
            tiers: tiers(&ok),
            windows: windows(&rows, Span(from.warmup_us), window),
        }
    }
}

/// Gaps between tokens.
fn gaps(row: &Row) -> impl Iterator<Item = Span> {
    row.gaps_us.iter().map(|gap| Span((*gap).into()))
}

/// For how long counted requests arrived: to the end of the schedule, or to where it was cut.
fn window(run: &Run, complete: bool) -> Span {
    let from = &run.provenance;
    let last = run.rows.last().map_or(0, |row| row.intended_us);
    let end = if complete { from.duration_us } else { last.min(from.duration_us) };
    Span(end.saturating_sub(from.warmup_us))
}

fn lag(run: &Run) -> Span {
    run.provenance.end.as_ref().map_or(Span::ZERO, |end| Span(end.worst.lag_us))
}

/// Why a run says nothing about its server.
fn invalid(run: &Run) -> Option<String> {
    let slip = run.rows.iter().map(Row::slip).max().unwrap_or(Span::ZERO);
    let millis = |span: Span| span.0 / 1_000;
    if slip > SLIP_MAX {
        return Some(format!("a request was started {} ms late, at most 250", millis(slip)));
    }
    if lag(run) > SLIP_MAX {
        return Some(format!("the client stood still for {} ms, at most 250", millis(lag(run))));
    }
    let limited = run.rows.iter().filter(|row| row.class == Class::ClientLimit).count();
    (limited > 0).then(|| format!("this machine ran out of files or ports in {limited} requests"))
}

fn classes(rows: &[&Row]) -> BTreeMap<&'static str, usize> {
    let mut classes = BTreeMap::new();
    for row in rows {
        *classes.entry(row.class.name()).or_default() += 1;
    }
    classes
}

fn tiers(ok: &[&Row]) -> BTreeMap<String, Tier> {
    let mut tiers = BTreeMap::<String, Tier>::new();
    for row in ok {
        let Some(name) = &row.tier else { continue };
        let tier = tiers.entry(name.clone()).or_default();
        tier.requests += 1;
        if let Some(bound) = row.bound_ms {
            tier.bounded += 1;
            let took = row.since_send(row.e2e()).as_secs_f64() * 1e3;
            tier.kept += usize::from(took <= bound);
        }
    }
    tiers
}

fn windows(rows: &[&Row], start: Span, length: Span) -> Vec<Window> {
    let edge = |at: u64| Span(start.0 + length.0 * at / WINDOWS);
    (0..WINDOWS)
        .map(|at| {
            let (from, to) = (edge(at), edge(at + 1));
            let is_last = at + 1 == WINDOWS;
            let inside =
                |row: &&&Row| row.intended_us >= from.0 && (row.intended_us < to.0 || is_last);
            let rows: Vec<&Row> = rows.iter().filter(inside).copied().collect();
            let of = |class| rows.iter().filter(move |row| row.class == class);
            Window {
                from_s: from.as_secs_f64(),
                to_s: to.as_secs_f64(),
                requests: rows.len(),
                ok: of(Class::Ok).count(),
                shed: of(Class::Shed).count(),
                e2e_ms: Spread::of(of(Class::Ok).map(|row| row.e2e())),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{example, example_row};

    fn row(index: u64, class: Class, intended_s: u64, e2e_ms: u64) -> Row {
        let intended_us = intended_s * 1_000_000;
        let last = intended_us + e2e_ms * 1_000;
        Row {
            index,
            class,
            intended_us,
            started_us: intended_us,
            sent_us: Some(intended_us + 10_000),
            first_token_us: Some(last),
            last_token_us: Some(last),
            end_us: last,
            attempts: 1,
            ..example_row()
        }
    }

    /// Ten seconds, of which two do not count.
    fn summary(mut rows: Vec<Row>, change: impl Fn(&mut Run)) -> Summary {
        for row in &mut rows {
            row.warmup = row.intended_us < 2_000_000;
        }
        let mut run = example(rows);
        run.provenance.duration_us = 10_000_000;
        run.provenance.warmup_us = 2_000_000;
        change(&mut run);
        Summary::of(&run, &"e2e:4000".parse().expect("targets"))
    }

    #[test]
    fn goodput_counts_what_was_in_time_by_when_it_arrived() {
        let rows = vec![
            row(0, Class::Ok, 1, 100),
            row(1, Class::Ok, 2, 100),
            row(2, Class::Ok, 4, 5_000),
            row(3, Class::Shed, 6, 1),
            row(4, Class::Truncated, 9, 1_000),
        ];
        let summary = summary(rows, |_| {});
        assert_eq!(summary.requests, 4);
        assert_eq!(summary.goodput_rps, Some(1.0 / 8.0));
        assert_eq!((summary.goodput_share, summary.shed_share), (Some(0.25), 0.25));
        assert_eq!(summary.failed_share, 0.25);
        // Failures and refusals have no latency.
        assert_eq!(summary.e2e_ms.expect("answers").max, 5_000.0);
        assert_eq!(summary.e2e_from_send_ms.expect("answers").max, 4_990.0);
        // The last answer of all ended after ten seconds, eight of which count.
        assert_eq!(summary.completed_rps, 2.0 / 8.0);
        assert_eq!(summary.windows.iter().map(|window| window.requests).sum::<usize>(), 4);
    }

    #[test]
    fn what_is_late_is_invalid_and_not_slow() {
        let late = |late_ms: u64| {
            let mut one = row(0, Class::Ok, 5, 1_000);
            one.started_us += late_ms * 1_000;
            summary(vec![one], |_| {}).invalid
        };
        assert_eq!(late(250), None);
        let why = late(251).expect("invalid");
        assert_eq!(why, "a request was started 251 ms late, at most 250");
        let stood_still = summary(vec![row(0, Class::Ok, 5, 1)], |run| {
            run.provenance.end.as_mut().expect("it ended").worst.lag_us = 300_000;
        });
        assert!(stood_still.invalid.is_some());
        assert!(summary(vec![row(0, Class::ClientLimit, 5, 1)], |_| {}).invalid.is_some());
    }

    #[test]
    fn a_partial_run_counts_until_where_it_was_cut() {
        let rows = vec![row(0, Class::Ok, 4, 100), row(1, Class::Interrupted, 6, 100)];
        let summary = summary(rows, |run| run.provenance.end = None);
        assert!(!summary.complete);
        assert_eq!(summary.window_s, 4.0);
        assert_eq!(summary.offered_rps, 0.5);
    }

    #[test]
    fn bounds_are_kept_or_not() {
        let bounded = |bound_ms: f64| Row {
            tier: Some("promised".into()),
            bound_ms: Some(bound_ms),
            ..row(0, Class::Ok, 5, 1_000)
        };
        let mut second = bounded(980.0);
        second.index = 1;
        let tiers = summary(vec![bounded(990.0), second], |_| {}).tiers;
        assert_eq!(tiers["promised"], Tier { requests: 2, bounded: 2, kept: 1 });
    }

    #[test]
    fn a_run_without_answers_has_no_latencies_and_no_nan() {
        let summary = summary(Vec::new(), |_| {});
        assert!(summary.e2e_ms.is_none());
        let json = serde_json::to_string(&summary).expect("JSON");
        assert!(!json.contains("null,\"offered_rps\":null"), "{json}");
        assert_eq!((summary.offered_rps, summary.shed_share), (0.0, 0.0));
    }
}
