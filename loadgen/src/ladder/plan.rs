//! A plan: what is compared, at which loads, and how it is judged.
//!
//! TOML -> [`Plan::read`] -> checked -> cells. Plans say nothing about how a cell is measured: the same one
//! is run on a machine and in virtual time.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use super::check;
use crate::{
    digest::sha256,
    run::{Named, Retries},
};

/// Everything but where programs and models are: two plans with the same content are the same plan.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Plan {
    /// Of files, headings and figures.
    pub(crate) name: String,
    /// Requests a second, ascending.
    pub(crate) rates: Vec<f64>,
    /// Each is another realisation of arrivals and prompts, the same for all rungs.
    pub(crate) seeds: Vec<u64>,
    /// For how long requests arrive, and how much of it is not counted.
    pub(crate) duration_s: f64,
    #[serde(default)]
    pub(crate) warmup_s: f64,
    /// How long answers are waited for after that.
    pub(crate) drain_s: f64,
    /// How long any request is waited for.
    #[serde(default = "usual_timeout")]
    pub(crate) timeout_s: f64,
    /// Targets and budgets, as `loadgen run` takes them.
    pub(crate) slo: String,
    #[serde(default)]
    pub(crate) budget: String,
    #[serde(default = "usual_workload")]
    pub(crate) workload: Named,
    pub(crate) scale: Option<f64>,
    pub(crate) max_tokens: Option<u32>,
    #[serde(default)]
    pub(crate) ignore_eos: bool,
    #[serde(default = "usual_retries")]
    pub(crate) retries: Retries,
    #[serde(default)]
    pub(crate) probe: ProbePlan,
    /// By process, for all rungs.
    #[serde(default)]
    pub(crate) settings: Settings,
    #[serde(rename = "rung")]
    pub(crate) rungs: Vec<Rung>,
    /// Cells that are measured again: what differs between equals is noise.
    #[serde(rename = "replicate", default)]
    pub(crate) replicates: Vec<Replicate>,
    /// The file that names the processes, beside the plan.
    #[serde(skip_serializing)]
    pub(crate) stack: PathBuf,
    /// Where the programs and the model are, from the plan; the command line wins.
    #[serde(skip_serializing)]
    pub(crate) bin_dir: Option<PathBuf>,
    #[serde(skip_serializing)]
    pub(crate) model: Option<PathBuf>,
}

/// Settings by process and key.
pub(crate) type Settings = BTreeMap<String, BTreeMap<String, Setting>>;

/// The value of a setting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Setting {
    /// A whole number.
    Whole(i64),
    /// Another number.
    Real(f64),
    /// A word.
    Text(String),
}

/// One of the configurations that are compared.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rung {
    pub(crate) name: String,
    /// In a few words.
    pub(crate) title: String,
    /// What it adds to the rung that it is compared with.
    #[serde(default)]
    pub(crate) adds: String,
    /// The rung that it is compared with, if that is not the one before.
    pub(crate) against: Option<String>,
    /// Its own settings, over those for all.
    #[serde(default)]
    pub(crate) settings: Settings,
}

/// A cell that is measured again.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Replicate {
    pub(crate) rung: String,
    pub(crate) rate: f64,
    pub(crate) seed: u64,
    /// How often, besides the first time.
    pub(crate) times: u32,
}

/// The fixed work before each cell.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ProbePlan {
    /// Answers that are measured; 0 for no probe.
    pub(crate) times: u32,
    pub(crate) prompt_tokens: u32,
    pub(crate) answer_tokens: u32,
}

impl Default for ProbePlan {
    fn default() -> Self {
        Self { times: 3, prompt_tokens: 256, answer_tokens: 64 }
    }
}

fn usual_timeout() -> f64 {
    300.0
}

fn usual_workload() -> Named {
    Named::Cadence
}

fn usual_retries() -> Retries {
    Retries::None
}

impl Plan {
    /// Reads and checks a plan.
    ///
    /// # Errors
    /// It cannot be read, or says something that makes no sense; the key is named.
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let text = fs::read_to_string(path);
        let text = text.with_context(|| format!("cannot read the plan {}", path.display()))?;
        let plan = Self::parse(&text).with_context(|| path.display().to_string())?;
        let folder = path.parent().unwrap_or(Path::new(""));
        Ok(Self {
            stack: folder.join(&plan.stack),
            bin_dir: plan.bin_dir.as_ref().map(|dir| folder.join(dir)),
            model: plan.model.as_ref().map(|file| folder.join(file)),
            ..plan
        })
    }

    /// The same from a text, with its paths as they are.
    ///
    /// # Errors
    /// The same.
    pub(crate) fn parse(text: &str) -> anyhow::Result<Self> {
        let plan: Self = toml::from_str(text)?;
        check::check(&plan)?;
        Ok(plan)
    }

    /// SHA-256 of what it says, whatever it looks like.
    pub(crate) fn digest(&self) -> String {
        let json = serde_json::to_vec(self).expect("a plan has JSON");
        sha256(&json)
    }

    /// The settings of a process under a rung.
    pub(crate) fn settings(&self, rung: &Rung, process: &str) -> BTreeMap<String, String> {
        let layers = [&self.settings, &rung.settings].map(|layer| layer.get(process));
        let pairs = layers.into_iter().flatten().flatten();
        pairs.map(|(key, value)| (key.clone(), value.to_string())).collect()
    }

    /// The rung that another is compared with.
    pub(crate) fn against(&self, place: usize) -> Option<&str> {
        let own = self.rungs[place].against.as_deref();
        let before = place.checked_sub(1).map(|before| self.rungs[before].name.as_str());
        own.or(before)
    }
}

impl std::fmt::Display for Setting {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Whole(value) => write!(out, "{value}"),
            Self::Real(value) => write!(out, "{value}"),
            Self::Text(value) => write!(out, "{value}"),
        }
    }
}
