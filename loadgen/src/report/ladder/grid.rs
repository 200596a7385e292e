//! The cells of a ladder by rung and load.

use std::{path::Path, str::FromStr as _};

use anyhow::{Context as _, ensure};
use workload::Slo;

use super::metric::Metric;
use crate::{
    ladder,
    record::{self, Cell, Machine, Provenance, Run},
    summary::Summary,
};

/// A cell that was measured.
pub(super) struct Point {
    pub(super) cell: Cell,
    pub(super) rate: f64,
    pub(super) run: Run,
    pub(super) slo: Slo,
    pub(super) summary: Summary,
}

/// A configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rung {
    pub(super) name: String,
    pub(super) title: String,
    pub(super) adds: String,
    /// The place of the one that it is compared with.
    pub(super) against: Option<usize>,
}

/// A cell that says nothing.
pub(super) struct Spoiled {
    pub(super) name: String,
    pub(super) why: String,
}

/// A whole ladder.
pub(super) struct Grid {
    /// Of any cell: what all have in common.
    pub(super) from: Provenance,
    pub(super) cell: Cell,
    pub(super) rungs: Vec<Rung>,
    pub(super) rates: Vec<f64>,
    pub(super) seeds: Vec<u64>,
    pub(super) points: Vec<Point>,
    pub(super) spoiled: Vec<Spoiled>,
}

/// A metric over the seeds of a rung at a load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Stat {
    pub(super) mean: f64,
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) seeds: usize,
    pub(super) at_least: bool,
}

impl Grid {
    /// Reads all cells in a ladder's folder, judged by `slo` or else by their own targets.
    ///
    /// # Errors
    /// There are none, or they are of several ladders.
    pub(super) fn load(folder: &Path, slo: Option<Slo>) -> anyhow::Result<Self> {
        let paths = ladder::files(folder)?;
        let runs = paths.iter().map(|path| {
            let mut run = record::load(path)?;
            let cell = run.provenance.cell.take();
            let cell = cell.with_context(|| format!("{} is no cell", path.display()))?;
            Ok((*cell, run))
        });
        let cells = runs.collect::<anyhow::Result<Vec<_>>>()?;
        ensure!(!cells.is_empty(), "there are no cells in {}", folder.display());
        Self::of(cells, slo)
    }

    /// Sorts cells.
    ///
    /// # Errors
    /// They are of several ladders.
    pub(super) fn of(mut cells: Vec<(Cell, Run)>, slo: Option<Slo>) -> anyhow::Result<Self> {
        cells.sort_by_key(|(cell, _)| (cell.place, cell.number));
        let (first, run) = cells.first().context("there are no cells")?;
        let mut grid = Self {
            from: run.provenance.clone(),
            cell: first.clone(),
            rungs: rungs(&cells),
            rates: Vec::new(),
            seeds: Vec::new(),
            points: Vec::new(),
            spoiled: Vec::new(),
        };
        for (cell, run) in cells {
            let same = cell.plan == grid.cell.plan;
            ensure!(same, "cells of two plans, {} and {}", grid.cell.ladder, cell.ladder);
            grid.add(cell, run, slo)?;
        }
        grid.rates.sort_by(f64::total_cmp);
        grid.seeds.sort_unstable();
        grid.spoiled.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(grid)
    }

    fn add(&mut self, cell: Cell, run: Run, slo: Option<Slo>) -> anyhow::Result<()> {
        let rate = run.provenance.rate.context("a cell without a rate")?;
        if !self.rates.contains(&rate) {
            self.rates.push(rate);
        }
        if !self.seeds.contains(&run.provenance.seed) {
            self.seeds.push(run.provenance.seed);
        }
        if let Some(why) = cell.failed.as_ref().or(cell.invalid.as_ref()) {
            let name = format!("{} at {rate} rps, seed {}", cell.rung, run.provenance.seed);
            let kind = if cell.failed.is_some() { "failed" } else { "invalid" };
            self.spoiled.push(Spoiled { name, why: format!("{kind}: {why}") });
            return Ok(());
        }
        let slo = match slo {
            Some(slo) => slo,
            None => Slo::from_str(&run.provenance.slo).context("the targets of a cell")?,
        };
        let summary = Summary::of(&run, &slo);
        self.points.push(Point { cell, rate, run, slo, summary });
        Ok(())
    }

    /// The cells of a rung at a load, replicates apart.
    pub(super) fn at(&self, place: usize, rate: f64) -> impl Iterator<Item = &Point> {
        let name = &self.rungs[place].name;
        let here = move |it: &&Point| it.cell.rung == *name && it.rate == rate;
        self.points.iter().filter(move |it| it.cell.replicate == 0 && here(it))
    }

    /// A metric of a rung at a load.
    pub(super) fn stat(&self, place: usize, rate: f64, metric: &Metric) -> Option<Stat> {
        Stat::of(self.at(place, rate).filter_map(metric.get).map(|it| (it.value, it.at_least)))
    }

    /// Where a rung has the highest mean of `metric`, and what it is there.
    pub(super) fn peak(&self, place: usize, metric: &Metric) -> Option<(f64, Stat)> {
        let all =
            self.rates.iter().filter_map(|rate| Some((*rate, self.stat(place, *rate, metric)?)));
        all.max_by(|a, b| a.1.mean.total_cmp(&b.1.mean).then(b.0.total_cmp(&a.0)))
    }

    /// The machine that the cells were measured on.
    pub(super) fn machine(&self) -> &Machine {
        &self.from.machine
    }
}

fn rungs(cells: &[(Cell, Run)]) -> Vec<Rung> {
    let mut rungs: Vec<Rung> = Vec::new();
    for (cell, _) in cells {
        if rungs.iter().any(|rung| rung.name == cell.rung) {
            continue;
        }
        let against = cell.against.as_ref();
        let against = against.and_then(|name| rungs.iter().position(|rung| rung.name == *name));
        let (name, title, adds) = (cell.rung.clone(), cell.title.clone(), cell.adds.clone());
        rungs.push(Rung { name, title, adds, against });
    }
    rungs
}

impl Stat {
    /// Of values, and whether each is what it is at least.
    pub(super) fn of(values: impl Iterator<Item = (f64, bool)>) -> Option<Self> {
        let values: Vec<_> = values.collect();
        let seeds = values.len();
        let all = values.iter().map(|(value, _)| *value);
        (seeds > 0).then(|| Self {
            mean: all.clone().sum::<f64>() / seeds as f64,
            low: all.clone().fold(f64::INFINITY, f64::min),
            high: all.fold(f64::NEG_INFINITY, f64::max),
            seeds,
            at_least: values.iter().any(|(_, at_least)| *at_least),
        })
    }

    /// Mean, and lowest and highest where there are several.
    pub(super) fn show(&self, metric: &Metric) -> String {
        let show = |value| metric.unit.show(value);
        let least = if self.at_least { "≥ " } else { "" };
        let mean = format!("{least}{}", show(self.mean));
        if self.seeds < 2 {
            return mean;
        }
        format!("{mean} [{}, {}]", show(self.low), show(self.high))
    }
}
