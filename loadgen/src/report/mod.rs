//! `loadgen report`: runs, and ladders, as tables and figures.

mod chart;
mod figures;
mod ladder;
mod tables;

use std::{
    fs,
    path::{Path, PathBuf},
    str::FromStr as _,
};

use anyhow::Context as _;
use workload::Slo;

use crate::{
    console,
    exit::Exit,
    record::{self, Run},
    summary::Summary,
};

/// Runs that a report compares: more colours nobody can tell apart.
const RUNS_MAX: usize = 8;

/// Show runs as tables and figures.
///
/// Everything is computed from the rows in the Parquet files.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// Files of runs, up to 8, or the folder of a ladder
    #[arg(required = true, value_name = "RUN.parquet|FOLDER")]
    runs: Vec<PathBuf>,
    /// Write report.md, summary.json and figures (SVG and PNG) into this folder [default: print the table]
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Judge by these targets instead of those that the runs were made with
    #[arg(long, value_name = "e2e:MS,ttft:MS,...", conflicts_with = "embed")]
    slo: Option<Slo>,
    /// Put the ladder into this Markdown document, between marks with its name, and its figures into the
    /// folder `figures` beside it
    #[arg(long, value_name = "FILE", conflicts_with = "out")]
    embed: Option<PathBuf>,
    /// Write nothing; say what of the document differs from the data, and end with 1 if anything does
    #[arg(long, requires = "embed")]
    check: bool,
}

/// A run, its name and its numbers.
struct Named {
    name: String,
    run: Run,
    slo: Slo,
    summary: Summary,
}

/// Reads the runs and writes what they say.
///
/// # Errors
/// A file is no run, or the folder cannot be written.
pub(crate) fn run(options: &Options) -> anyhow::Result<Exit> {
    if let [folder] = &*options.runs
        && folder.is_dir()
    {
        return of_ladder(folder, options);
    }
    anyhow::ensure!(options.embed.is_none(), "--embed is for the folder of a ladder");
    let count = options.runs.len();
    anyhow::ensure!(count <= RUNS_MAX, "{count} runs, at most {RUNS_MAX} in one report");
    let runs: Vec<Named> =
        options.runs.iter().map(|path| read(path, options.slo)).collect::<Result<_, _>>()?;
    let Some(folder) = &options.out else {
        console::say(&tables::markdown(&runs));
        return Ok(Exit::Done);
    };
    let cannot = || format!("cannot write into {}", folder.display());
    fs::create_dir_all(folder).with_context(cannot)?;
    let mut text = tables::markdown(&runs);
    for figure in figures::all(&runs) {
        chart::draw(&figure, folder).with_context(cannot)?;
        text += &format!("\n![{}]({}.svg)\n", figure.title, figure.file);
    }
    fs::write(folder.join("report.md"), text).with_context(cannot)?;
    let summaries: Vec<_> = runs.iter().map(|named| (&named.name, &named.summary)).collect();
    let json = serde_json::to_string_pretty(&summaries)? + "\n";
    fs::write(folder.join("summary.json"), json).with_context(cannot)?;
    console::say(&format!("report: {}", folder.join("report.md").display()));
    Ok(Exit::Done)
}

fn of_ladder(folder: &Path, options: &Options) -> anyhow::Result<Exit> {
    if let Some(document) = &options.embed {
        return ladder::embed(folder, document, options.check);
    }
    let Some(out) = &options.out else {
        console::say(&ladder::text(folder, options.slo)?);
        return Ok(Exit::Done);
    };
    ladder::write(folder, options.slo, out)
        .with_context(|| format!("cannot write into {}", out.display()))?;
    console::say(&format!("report: {}", out.join("report.md").display()));
    Ok(Exit::Done)
}

fn read(path: &Path, slo: Option<Slo>) -> anyhow::Result<Named> {
    let run = record::load(path)?;
    let own = &run.provenance.slo;
    let slo = match slo {
        Some(slo) => slo,
        None if own.is_empty() => Slo::default(),
        None => Slo::from_str(own).with_context(|| format!("targets of {}", path.display()))?,
    };
    let name = path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    let summary = Summary::of(&run, &slo);
    Ok(Named { name, run, slo, summary })
}
