//! What the three processes hold: every gauge they show, compared with an idle moment.

use std::{collections::BTreeMap, fmt};

const KEPT: &str = "a cache keeps what was computed, within its bound, for whoever comes next";

/// Gauges that do not say what is held, and why they move.
const MOVING: [(&str, &str); 8] = [
    ("cadence_engine_step_cost_gain", "follows the speed of the machine"),
    ("cadence_admission_epoch", "counts the grants of engines, and restarts with them"),
    ("cadence_admission_trace_bytes", "grows with every decision, up to its limit"),
    ("cadence_admission_trace_flushed", "counts rows"),
    ("cadence_gateway_connections", "clients keep theirs"),
    ("cadence_engine_prefix_bytes", KEPT),
    ("cadence_engine_prefix_nodes", KEPT),
    ("cadence_engine_prefix_tokens", KEPT),
];

/// Every gauge of a stack at one moment, by process, name and labels.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gauges(BTreeMap<String, f64>);

impl Gauges {
    /// Adds the gauges of one process from its exposition.
    pub(crate) fn add(&mut self, process: &str, exposition: &str) {
        let mut name = "";
        for line in exposition.lines() {
            if let Some(typed) = line.strip_prefix("# TYPE ") {
                name = typed.strip_suffix(" gauge").unwrap_or_default();
            } else if !name.is_empty() && line.starts_with(name) && !is_moving(name) {
                let (series, value) = line.rsplit_once(' ').expect("a series has a value");
                let value = value.parse().expect("a value is a number");
                self.0.insert(format!("{process} {series}"), value);
            }
        }
    }

    /// The series that differ from those of `idle`. One that is not there yet, or not any more, is 0.
    #[must_use]
    pub fn left_over(&self, idle: &Self) -> LeftOver {
        let value = |gauges: &Self, series: &str| gauges.0.get(series).copied().unwrap_or(0.0);
        let series = self.0.keys().chain(idle.0.keys());
        let both = series.map(|series| (series, (value(idle, series), value(self, series))));
        let differ = both.filter(|(_, (idle, now))| idle != now);
        LeftOver(differ.map(|(series, values)| (series.clone(), values)).collect())
    }
}

fn is_moving(name: &str) -> bool {
    MOVING.iter().any(|(moving, _)| *moving == name)
}

/// Series with their idle value and the one they have instead.
#[derive(Clone, Debug, PartialEq)]
pub struct LeftOver(BTreeMap<String, (f64, f64)>);

impl LeftOver {
    /// Whether everything is as it was.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for LeftOver {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (series, (idle, now)) in &self.0 {
            writeln!(out, "{series} is {now} instead of {idle}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: &str = "# HELP a_running what runs\n# TYPE a_running gauge\na_running{kind=\"x\"} 0\n\
                        a_running{kind=\"y\"} 2\n\n# TYPE a_total counter\na_total 7\n";

    fn gauges(text: &str) -> Gauges {
        let mut gauges = Gauges::default();
        gauges.add("engine", text);
        gauges
    }

    #[test]
    fn a_gauge_that_differs_is_left_over() {
        let idle = gauges(IDLE);
        let counted = gauges(&IDLE.replace("a_total 7", "a_total 9"));
        assert!(counted.left_over(&idle).is_empty(), "counters only grow");
        let held = gauges(&IDLE.replace("\"x\"} 0", "\"x\"} 1"));
        let said = held.left_over(&idle).to_string();
        assert_eq!(said, "engine a_running{kind=\"x\"} is 1 instead of 0\n");
        assert_eq!(idle.left_over(&held).to_string().lines().count(), 1);
    }

    #[test]
    fn a_gauge_that_was_never_set_is_nothing() {
        let none = gauges("");
        assert_eq!(none.left_over(&gauges(IDLE)).to_string().lines().count(), 1);
    }

    #[test]
    fn what_moves_by_nature_is_no_remainder() {
        let text =
            "# TYPE cadence_admission_epoch gauge\ncadence_admission_epoch{engine=\"e\"} 5\n";
        assert_eq!(gauges(text), Gauges::default());
    }
}
