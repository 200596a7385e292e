//! The cells of a plan, in the order in which they are measured.
//!
//! A round is one load with one seed, and holds every rung once. Rounds go by load, so that nothing is
//! measured only on a machine that has been hot for hours; the order of rungs is rotated from round to
//! round, so that none is always first. Replicates go into later rounds than their cell: what they show is
//! the noise of the whole ladder, drift of the machine included, and not that of two neighbours.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::plan::{Plan, Rung};

/// One configuration at one load with one seed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell<'a> {
    pub(crate) rung: &'a Rung,
    /// The rung's place in the plan.
    pub(crate) place: usize,
    pub(crate) rate: f64,
    pub(crate) seed: u64,
    /// 0, or which repetition this is.
    pub(crate) replicate: u32,
    /// Its place in the order.
    pub(crate) number: usize,
}

impl Cell<'_> {
    /// Of its files.
    pub(crate) fn name(&self) -> String {
        let again =
            if self.replicate == 0 { String::new() } else { format!("-x{}", self.replicate) };
        format!("{}rps-{}-s{}{again}", self.rate, self.rung.name, self.seed)
    }
}

/// All of them.
pub(crate) fn order(plan: &Plan) -> Vec<Cell<'_>> {
    let rounds: Vec<(f64, u64)> =
        plan.rates.iter().flat_map(|rate| plan.seeds.iter().map(|seed| (*rate, *seed))).collect();
    let mut cells = Vec::new();
    for (round, (rate, seed)) in rounds.iter().enumerate() {
        let rungs = plan.rungs.len();
        let places = (0..rungs).map(|step| (step + round) % rungs);
        cells.extend(places.map(|place| cell(plan, place, *rate, *seed, 0)));
        cells.extend(replicates(plan, &rounds, round));
    }
    for (number, cell) in cells.iter_mut().enumerate() {
        cell.number = number;
    }
    cells
}

fn cell(plan: &Plan, place: usize, rate: f64, seed: u64, replicate: u32) -> Cell<'_> {
    Cell { rung: &plan.rungs[place], place, rate, seed, replicate, number: 0 }
}

/// Those that belong at the end of `round`: the n-th of a cell comes n rounds after it.
fn replicates<'a>(plan: &'a Plan, rounds: &[(f64, u64)], round: usize) -> Vec<Cell<'a>> {
    let mut found = Vec::new();
    for it in &plan.replicates {
        let home = rounds.iter().position(|(rate, seed)| *rate == it.rate && *seed == it.seed);
        let place = plan.rungs.iter().position(|rung| rung.name == it.rung);
        let (home, place) = home.zip(place).expect("a checked plan");
        let here = (1..=it.times).filter(|nth| (home + *nth as usize) % rounds.len() == round);
        found.extend(here.map(|nth| cell(plan, place, it.rate, it.seed, nth)));
    }
    found
}

/// The files of all cells in a ladder's folder, by name.
///
/// # Errors
/// The folder cannot be read.
pub(crate) fn files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let cells = folder.join("cells");
    let cannot = || format!("cannot read {}", cells.display());
    let entries = cells.read_dir().with_context(cannot)?;
    let paths = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>();
    let mut paths = paths.with_context(cannot)?;
    paths.retain(|path| path.extension().is_some_and(|end| end == "parquet"));
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ladder::examples::PLAN;

    fn names(plan: &str) -> Vec<String> {
        let plan = Plan::parse(plan).expect("a plan");
        order(&plan).iter().map(Cell::name).collect()
    }

    #[test]
    fn rounds_go_by_load_and_rungs_take_turns() {
        assert_eq!(
            names(PLAN),
            [
                "1rps-one-s1",
                "1rps-two-s1",
                "1rps-two-s2",
                "1rps-one-s2",
                "2rps-one-s1",
                "2rps-two-s1",
                "2rps-two-s2",
                "2rps-one-s2",
                "2rps-two-s1-x1",
                "4rps-one-s1",
                "4rps-two-s1",
                "2rps-two-s1-x2",
                "4rps-two-s2",
                "4rps-one-s2",
            ]
        );
    }

    #[test]
    fn every_rung_is_as_often_first() {
        let third = "[[rung]]\nname = \"three\"\ntitle = \"\"\n[[replicate]]";
        let plan = PLAN.replacen("[[replicate]]", third, 1);
        let plan = Plan::parse(&plan).expect("a plan");
        let cells = order(&plan);
        let primary: Vec<_> = cells.iter().filter(|cell| cell.replicate == 0).collect();
        let mut firsts = [0; 3];
        primary.chunks(3).for_each(|round| firsts[round[0].place] += 1);
        assert_eq!(firsts, [2; 3]);
    }

    #[test]
    fn replicates_of_a_single_round_follow_it() {
        let plan = PLAN.replace("[1, 2, 4]", "[2]").replace("[1, 2]", "[1]");
        let last: Vec<_> = names(&plan).split_off(2);
        assert_eq!(last, ["2rps-two-s1-x1", "2rps-two-s1-x2"]);
    }
}
