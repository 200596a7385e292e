//! The noise floor: what differs between cells that are equal in everything.

use std::collections::BTreeMap;

use super::{
    grid::{Grid, Point},
    metric::Metric,
};

/// How far apart equals are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Floor {
    /// As a change of the metric: from the lowest to the highest, of their mean.
    pub(super) spread: f64,
    /// Whether it was measured at this load; or else it is the worst of other loads.
    pub(super) is_here: bool,
}

/// The noise floor of a metric at a load: the widest spread among equals there, or else anywhere.
pub(super) fn floor(grid: &Grid, metric: &Metric, rate: f64) -> Option<Floor> {
    let widest = |wanted: Option<f64>| {
        let groups = equals(grid);
        let there = groups.iter().filter(|group| wanted.is_none_or(|rate| group[0].rate == rate));
        there.filter_map(|group| spread(group, metric)).reduce(f64::max)
    };
    let here = widest(Some(rate)).map(|spread| Floor { spread, is_here: true });
    here.or_else(|| widest(None).map(|spread| Floor { spread, is_here: false }))
}

/// Cells that differ in nothing, at least two of each.
pub(super) fn equals(grid: &Grid) -> Vec<Vec<&Point>> {
    let mut groups = BTreeMap::<_, Vec<&Point>>::new();
    for point in &grid.points {
        let key = (point.cell.place, point.rate.to_bits(), point.run.provenance.seed);
        groups.entry(key).or_default().push(point);
    }
    groups.into_values().filter(|group| group.len() > 1).collect()
}

pub(super) fn spread(group: &[&Point], metric: &Metric) -> Option<f64> {
    let values: Vec<f64> =
        group.iter().filter_map(|it| (metric.get)(it)).map(|it| it.value).collect();
    if values.len() < 2 {
        return None;
    }
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    // From the mean: neither the lowest nor the highest is the right one to divide by.
    Some(metric.unit.change(mean, mean + (high - low))?.abs())
}
