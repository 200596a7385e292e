//! Whether figures keep a budget.

use super::budget::Figures;

/// A p99 of more than this times the budget's is worse.
const P99_MOST: f64 = 1.15;
/// A goodput of less than this times the budget's is worse.
const GOODPUT_LEAST: f64 = 0.9;

/// What has become worse, in words.
pub(super) fn worse(budget: &Figures, measured: &Figures) -> Vec<String> {
    let mut lines = Vec::new();
    let rate = budget.rate;
    if measured.p99_ms > budget.p99_ms * P99_MOST {
        lines.push(format!(
            "at {rate} rps p99 is {:.1} ms, more than 15 % above {:.1}",
            measured.p99_ms, budget.p99_ms
        ));
    }
    if measured.goodput_rps < budget.goodput_rps * GOODPUT_LEAST {
        lines.push(format!(
            "at {rate} rps goodput is {:.3} rps, less than 90 % of {:.3}",
            measured.goodput_rps, budget.goodput_rps
        ));
    }
    lines
}

/// Both, side by side.
pub(super) fn line(budget: &Figures, measured: &Figures) -> String {
    let change = |now: f64, then: f64| match then {
        0.0 => String::new(),
        then => format!(" ({:+.1} %)", (now / then - 1.0) * 100.0),
    };
    format!(
        "{:>5} rps: goodput {:.3} rps{}, p99 {:.1} ms{}",
        budget.rate,
        measured.goodput_rps,
        change(measured.goodput_rps, budget.goodput_rps),
        measured.p99_ms,
        change(measured.p99_ms, budget.p99_ms),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUDGET: Figures = Figures { rate: 1.0, goodput_rps: 1.0, p99_ms: 1_000.0 };

    fn count(goodput_rps: f64, p99_ms: f64) -> usize {
        worse(&BUDGET, &Figures { rate: 1.0, goodput_rps, p99_ms }).len()
    }

    #[test]
    fn only_what_is_worse_fails() {
        assert_eq!(count(1.0, 1_000.0), 0);
        assert_eq!(count(0.9, 1_150.0), 0, "within the tolerance");
        assert_eq!(count(9.0, 1.0), 0, "better");
        assert_eq!(count(0.89, 1_000.0), 1);
        assert_eq!(count(1.0, 1_151.0), 1);
        assert_eq!(count(0.0, 9_999.0), 2);
    }
}
