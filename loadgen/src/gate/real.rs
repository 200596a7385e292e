//! The gate in real time: a server that sleeps for as long as its steps would take.

use std::{env, fs, process};

use clap::Parser as _;

use super::budget::{Figures, Section};
use crate::{
    cli::{Cli, Command},
    exit::Exit,
    record, run,
    summary::Summary,
};

/// What a server does at the loads of a section.
///
/// # Errors
/// A run cannot be made, or says nothing.
pub(super) fn measure(section: &Section, url: &str) -> anyhow::Result<Vec<Figures>> {
    section.loads.iter().map(|load| measure_load(section, url, load.rate)).collect()
}

fn measure_load(section: &Section, url: &str, rate: f64) -> anyhow::Result<Figures> {
    let out = env::temp_dir().join(format!("loadgen-gate-{}.parquet", process::id()));
    let (rate_text, duration) = (rate.to_string(), section.duration_s.to_string());
    let out_text = out.to_string_lossy();
    let words = [
        "loadgen",
        "run",
        "--url",
        url,
        "--rate",
        &rate_text,
        "--duration",
        &duration,
        "--slo",
        &section.slo,
        "--overwrite",
        "--out",
        &out_text,
    ];
    let Command::Run(options) = Cli::try_parse_from(words)?.command else {
        anyhow::bail!("not a run");
    };
    let exit = run::run(&options)?;
    let measured = record::load(&out)?;
    fs::remove_file(&out)?;
    anyhow::ensure!(exit == Exit::Done, "the run at {rate} rps is not whole, or not valid");
    let summary = Summary::of(&measured, &section.slo.parse()?);
    let e2e =
        summary.e2e_ms.ok_or_else(|| anyhow::anyhow!("nothing was answered at {rate} rps"))?;
    Ok(Figures { rate, goodput_rps: summary.goodput_rps.unwrap_or_default(), p99_ms: e2e.p99 })
}
