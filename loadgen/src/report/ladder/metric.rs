//! What is compared: the one list of it.

use units::Span;

use super::grid::Point;
use crate::{
    record::Row,
    summary::{Spread, Summary, quantile},
    wire::Class,
};

/// A metric of a cell.
#[derive(Clone, Copy)]
pub(super) struct Metric {
    pub(super) name: &'static str,
    pub(super) unit: Unit,
    pub(super) better: Better,
    pub(super) get: fn(&Point) -> Option<Value>,
}

/// In what it is counted, which says how it is written and how it is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// Requests a second.
    Rps,
    /// Tokens a second.
    Tokens,
    /// Seconds.
    Seconds,
    /// A share, written in percent. Differences are in points: 1 % instead of none is no catastrophe.
    Share,
}

/// Which way is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Better {
    Higher,
    Lower,
}

/// A value, or what it is at least.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Value {
    pub(super) value: f64,
    pub(super) at_least: bool,
}

use Better::{Higher, Lower};
use Unit::{Rps, Seconds, Share, Tokens};

pub(super) const GOODPUT: Metric =
    metric("goodput", Rps, Higher, |it| exact(it.summary.goodput_rps));
pub(super) const IN_TIME: Metric =
    metric("in time", Share, Higher, |it| exact(it.summary.goodput_share));
pub(super) const SHED: Metric =
    metric("refused", Share, Lower, |it| exact(Some(it.summary.shed_share)));
pub(super) const TTFT_P50: Metric =
    metric("TTFT p50", Seconds, Lower, |it| latency(it, 0.5, Row::ttft));
pub(super) const TTFT_P99: Metric =
    metric("TTFT p99", Seconds, Lower, |it| latency(it, 0.99, Row::ttft));
pub(super) const ITL_P99: Metric =
    metric("ITL p99", Seconds, Lower, |it| spread(it.summary.itl_ms, |of| of.p99));
pub(super) const E2E_P50: Metric =
    metric("E2E p50", Seconds, Lower, |it| latency(it, 0.5, |row| Some(row.e2e())));
pub(super) const E2E_P99: Metric =
    metric("E2E p99", Seconds, Lower, |it| latency(it, 0.99, |row| Some(row.e2e())));
pub(super) const HIT: Metric = metric("prefix hit", Share, Higher, |it| exact(hit(&it.summary)));

/// All of them, in the order of the tables.
pub(super) const ALL: [Metric; 13] = [
    GOODPUT,
    IN_TIME,
    metric("completed", Rps, Higher, |it| exact(Some(it.summary.completed_rps))),
    metric("output", Tokens, Higher, |it| exact(Some(it.summary.output_tokens_per_s))),
    TTFT_P50,
    TTFT_P99,
    metric("ITL p50", Seconds, Lower, |it| spread(it.summary.itl_ms, |of| of.p50)),
    ITL_P99,
    E2E_P50,
    E2E_P99,
    SHED,
    metric("failed", Share, Lower, |it| exact(Some(it.summary.failed_share))),
    HIT,
];

const fn metric(
    name: &'static str,
    unit: Unit,
    better: Better,
    get: fn(&Point) -> Option<Value>,
) -> Metric {
    Metric { name, unit, better, get }
}

fn exact(value: Option<f64>) -> Option<Value> {
    value.map(|value| Value { value, at_least: false })
}

fn spread(spread: Option<Spread>, get: fn(Spread) -> f64) -> Option<Value> {
    exact(spread.map(|spread| get(spread) / 1e3))
}

/// Prompt tokens that had not to be computed.
fn hit(summary: &Summary) -> Option<f64> {
    let all = summary.prompt_tokens;
    (all > 0).then(|| summary.cached_tokens as f64 / all as f64)
}

/// A quantile over answers, and over requests that were given up while they waited: of those it is known how
/// long they took at least. Without them the worst would look best where it is given up most often.
fn latency(point: &Point, share: f64, get: fn(&Row) -> Option<Span>) -> Option<Value> {
    let counted = point.run.rows.iter().filter(|row| !row.warmup);
    let seen = counted.filter_map(|row| match row.class {
        Class::Ok => Some((get(row)?.as_secs_f64(), false)),
        Class::Timeout => Some((row.end_us.saturating_sub(row.intended_us) as f64 / 1e6, true)),
        Class::Shed
        | Class::Connect
        | Class::Tls
        | Class::HttpStatus
        | Class::Redirect
        | Class::NotSse
        | Class::Truncated
        | Class::InBandError
        | Class::Protocol
        | Class::BadUsage
        | Class::ClientLimit
        | Class::Interrupted => None,
    });
    censored(seen.collect(), share)
}

fn censored(mut seen: Vec<(f64, bool)>, share: f64) -> Option<Value> {
    seen.sort_by(|a, b| a.0.total_cmp(&b.0));
    let values: Vec<f64> = seen.iter().map(|(value, _)| *value).collect();
    let value = (!values.is_empty()).then(|| quantile(&values, share))?;
    // One that was given up below it may in truth lie above it.
    let at_least = seen.iter().any(|(seen, given_up)| *given_up && *seen <= value)
        || seen.iter().find(|(seen, _)| *seen >= value).is_some_and(|(_, given_up)| *given_up);
    Some(Value { value, at_least })
}

impl Unit {
    /// A value of it.
    pub(super) fn show(self, value: f64) -> String {
        match self {
            Self::Rps => format!("{value:.2}"),
            Self::Tokens => format!("{value:.0}"),
            Self::Seconds if value < 1.0 => format!("{value:.3}"),
            Self::Seconds if value < 100.0 => format!("{value:.2}"),
            Self::Seconds => format!("{value:.0}"),
            Self::Share => format!("{:.0} %", value * 100.0),
        }
    }

    /// After a metric's name.
    pub(super) fn suffix(self) -> &'static str {
        match self {
            Self::Rps => ", rps",
            Self::Tokens => ", tokens/s",
            Self::Seconds => ", s",
            Self::Share => "",
        }
    }

    /// From one value to another: a share of the first, or points of a share. Absent from 0 to something.
    pub(super) fn change(self, before: f64, after: f64) -> Option<f64> {
        match self {
            Self::Share => Some(after - before),
            Self::Rps | Self::Tokens | Self::Seconds if before == after => Some(0.0),
            Self::Rps | Self::Tokens | Self::Seconds => {
                (before != 0.0).then(|| (after - before) / before)
            }
        }
    }

    /// A change in words.
    pub(super) fn show_change(self, change: f64) -> String {
        let percent = if change.abs() < 9.995 {
            format!("{:+.0}", change * 100.0)
        } else {
            return format!("x{:.0}", change + 1.0);
        };
        let percent = if percent == "-0" { "+0" } else { &percent };
        match self {
            Self::Share => format!("{percent} points"),
            Self::Rps | Self::Tokens | Self::Seconds => format!("{percent} %"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_given_up_counts_for_at_least_as_long() {
        let check = |seen: &[(f64, bool)], share, value, at_least| {
            let found = censored(seen.to_vec(), share);
            assert_eq!(found, Some(Value { value, at_least }), "{seen:?}");
        };
        check(&[(1.0, false), (2.0, false), (3.0, false)], 0.5, 2.0, false);
        check(&[(1.0, false), (2.0, false), (3.0, true)], 0.5, 2.0, false);
        check(&[(1.0, true), (2.0, false), (3.0, false)], 0.5, 2.0, true);
        check(&[(1.0, false), (3.0, true)], 0.5, 2.0, true);
        assert_eq!(censored(Vec::new(), 0.5), None);
    }

    #[test]
    fn changes_are_relative_but_those_of_shares() {
        assert_eq!(Seconds.change(2.0, 3.0), Some(0.5));
        assert_eq!(Seconds.change(0.0, 3.0), None);
        assert_eq!(Rps.change(0.0, 0.0), Some(0.0));
        assert_eq!(Share.change(0.0, 0.25), Some(0.25));
        assert_eq!(Seconds.show_change(0.5), "+50 %");
        assert_eq!(Seconds.show_change(-0.001), "+0 %");
        assert_eq!(Seconds.show_change(24.0), "x25");
        assert_eq!(Share.show_change(-0.14), "-14 points");
    }

    #[test]
    fn values_have_three_digits_or_so() {
        assert_eq!(Seconds.show(0.0651), "0.065");
        assert_eq!((Seconds.show(12.345), Seconds.show(123.4)), ("12.35".into(), "123".into()));
        assert_eq!((Share.show(0.644), Rps.show(1.226)), ("64 %".into(), "1.23".into()));
    }
}
