//! A calibration as it is written down.

use std::time::Duration;

use sched::{Bend, StepCost};
use serde::{Deserialize, Serialize};

use super::{Machine, Measured, Residual};
use crate::settings::LayoutKind;

/// Changes whenever a reader of an older one would misunderstand it.
const FORMAT: u32 = 1;
/// No time of a unit is longer, in microseconds.
const COST_MAX_US: f64 = 1e9;

/// What was measured of one model in one configuration on one machine, and what of it is believed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Artifact {
    format: u32,
    /// Of what it is.
    pub provenance: Provenance,
    /// What was measured, and is the best of what was compared.
    pub configuration: Configuration,
    cost: Cost,
    /// Tokens a second of the mix by which configurations are compared.
    pub rate: f64,
    /// When, in seconds since 1970.
    pub measured_unix: u64,
    /// Steps that were measured.
    pub steps: u64,
    /// How far off the model is.
    pub residuals: Vec<Residual>,
    /// What the model was fitted to.
    points: Vec<Point>,
}

/// Whose steps were measured, by what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    /// Of the model file, hexadecimal.
    pub model_sha256: String,
    /// Of the model file.
    pub model_bytes: u64,
    /// On what.
    pub machine: Machine,
    /// Version, build and instruction sets of this program.
    pub engine: String,
    /// Of the planning rules.
    pub planner: String,
    /// Of llama.cpp.
    pub backend: String,
}

/// What can be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Configuration {
    /// Where sequences live.
    pub layout: LayoutKind,
    /// Threads of llama.cpp.
    pub threads: u32,
    /// Layers on a GPU, as set.
    pub gpu_layers: u32,
    /// Rows of one backend batch.
    pub batch_tokens: u32,
    /// Prompt tokens in one step.
    pub prefill_tokens: u32,
}

/// [`StepCost`], without the gain: that is of the moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Cost {
    base_us: f64,
    per_decode_us: f64,
    /// At 1, 2, 4, ... sequences.
    bend_us: Vec<f64>,
    prompt_us: f64,
    per_prefill_token_us: f64,
    per_cell_us: f64,
    per_tiled_cell_us: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Point {
    decodes: u32,
    prefill: u32,
    cells: u64,
    prefill_cells: u64,
    took_us: u64,
}

/// Why a file is no calibration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArtifactError {
    /// It is damaged, or something else.
    #[error("it is not a calibration: {0}")]
    Damaged(String),
    /// It is of another format.
    #[error("its format is {0}, not {FORMAT}")]
    Format(u32),
    /// A value that cannot be.
    #[error("its {0} cannot be")]
    Value(&'static str),
}

/// What a calibration is of, that this is not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    /// Another model.
    #[error("it is of another model file")]
    Model,
    /// Another machine.
    #[error("it is of {theirs:?}, and this is {ours:?}")]
    Machine {
        /// What it is of.
        theirs: Machine,
        /// What this is.
        ours: Machine,
    },
    /// Another version.
    #[error("it is of {what} {theirs}, and this is {ours}")]
    Version {
        /// Of what.
        what: &'static str,
        /// What it is of.
        theirs: String,
        /// What this is.
        ours: String,
    },
}

impl Provenance {
    /// Whether what was measured there holds here.
    ///
    /// # Errors
    /// The first thing that is another one.
    pub fn holds_for(&self, ours: &Self) -> Result<(), Mismatch> {
        if (&self.model_sha256, self.model_bytes) != (&ours.model_sha256, ours.model_bytes) {
            return Err(Mismatch::Model);
        }
        if self.machine != ours.machine {
            let (theirs, ours) = (self.machine.clone(), ours.machine.clone());
            return Err(Mismatch::Machine { theirs, ours });
        }
        let versions = [
            ("engine-worker", &self.engine, &ours.engine),
            ("planner", &self.planner, &ours.planner),
            ("llama.cpp", &self.backend, &ours.backend),
        ];
        match versions.into_iter().find(|(_, theirs, ours)| theirs != ours) {
            None => Ok(()),
            Some((what, theirs, ours)) => {
                let (theirs, ours) = (theirs.clone(), ours.clone());
                Err(Mismatch::Version { what, theirs, ours })
            }
        }
    }
}

impl Artifact {
    /// Writes down a calibration that ends now, at `unix` after 1970.
    #[must_use]
    pub fn new(
        provenance: Provenance,
        configuration: Configuration,
        cost: &StepCost,
        rate: f64,
        unix: Duration,
    ) -> Self {
        let cost = Cost {
            base_us: cost.base_us,
            per_decode_us: cost.per_decode_us,
            bend_us: cost.bend.values().to_vec(),
            prompt_us: cost.prompt_us,
            per_prefill_token_us: cost.per_prefill_token_us,
            per_cell_us: cost.per_cell_us,
            per_tiled_cell_us: cost.per_tiled_cell_us,
        };
        let measured_unix = unix.as_secs();
        let (residuals, points) = (Vec::new(), Vec::new());
        Self {
            format: FORMAT,
            provenance,
            configuration,
            cost,
            rate,
            measured_unix,
            steps: 0,
            residuals,
            points,
        }
    }

    /// With what it rests on: all steps, how far off the model is, and the steps that it was fitted to.
    #[must_use]
    pub fn with_evidence(self, steps: u64, residuals: Vec<Residual>, points: &[Measured]) -> Self {
        let point = |it: &Measured| Point {
            decodes: it.shape.decodes,
            prefill: it.shape.prefill,
            cells: it.shape.cells,
            prefill_cells: it.shape.prefill_cells,
            took_us: it.took.0,
        };
        Self { steps, residuals, points: points.iter().map(point).collect(), ..self }
    }

    /// Reads and checks one.
    ///
    /// # Errors
    /// It is damaged, or something else.
    pub fn parse(text: &[u8]) -> Result<Self, ArtifactError> {
        #[derive(Deserialize)]
        struct Head {
            format: u32,
        }
        let damaged = |error: serde_json::Error| ArtifactError::Damaged(error.to_string());
        let Head { format } = serde_json::from_slice(text).map_err(damaged)?;
        if format != FORMAT {
            return Err(ArtifactError::Format(format));
        }
        let artifact: Self = serde_json::from_slice(text).map_err(damaged)?;
        artifact.check().map_err(ArtifactError::Value)?;
        Ok(artifact)
    }

    /// The text of its file.
    #[must_use]
    pub fn print(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("plain values have a text");
        text.push('\n');
        text
    }

    fn check(&self) -> Result<(), &'static str> {
        let cost = self.cost();
        cost.validate()?;
        let times = [
            ("base_us", cost.base_us),
            ("per_decode_us", cost.per_decode_us),
            ("per_prefill_token_us", cost.per_prefill_token_us),
            ("per_cell_us", cost.per_cell_us),
            ("per_tiled_cell_us", cost.per_tiled_cell_us),
            ("prompt_us", cost.prompt_us),
        ];
        let Configuration { threads, batch_tokens, prefill_tokens, .. } = self.configuration;
        if let Some((name, _)) = times.iter().find(|(_, time)| *time > COST_MAX_US) {
            Err(name)
        } else if cost.bend.values().iter().any(|time| time.abs() > COST_MAX_US) {
            Err("bend_us")
        } else if !(1..=512).contains(&threads) {
            Err("threads")
        } else if !(1..=1 << 16).contains(&batch_tokens) {
            Err("batch_tokens")
        } else if !(1..=batch_tokens).contains(&prefill_tokens) {
            Err("prefill_tokens")
        } else {
            Ok(())
        }
    }

    /// What steps cost.
    #[must_use]
    pub fn cost(&self) -> StepCost {
        StepCost {
            base_us: self.cost.base_us,
            per_decode_us: self.cost.per_decode_us,
            per_prefill_token_us: self.cost.per_prefill_token_us,
            per_cell_us: self.cost.per_cell_us,
            gain: 1.0,
            per_tiled_cell_us: self.cost.per_tiled_cell_us,
            prompt_us: self.cost.prompt_us,
            bend: Bend::new(&self.cost.bend_us),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) fn provenance() -> Provenance {
        Provenance {
            model_sha256: "ab".repeat(32),
            model_bytes: 1_000,
            machine: Machine { cpu: "a processor".into(), processors: 2 },
            engine: "0.1.0".into(),
            planner: "rules-1".into(),
            backend: "llama 1".into(),
        }
    }

    pub(crate) fn artifact() -> Artifact {
        let configuration = Configuration {
            layout: LayoutKind::Streams,
            threads: 2,
            gpu_layers: 999,
            batch_tokens: 320,
            prefill_tokens: 256,
        };
        let bend = Bend::new(&[100.5, 200.25, 150.125]);
        let cost = StepCost { prompt_us: 10.0, per_cell_us: 0.1, bend, ..StepCost::GUESS };
        Artifact::new(provenance(), configuration, &cost, 200.0, Duration::from_secs(9))
    }

    #[test]
    fn what_is_read_is_what_was_written() {
        let written = artifact();
        let read = Artifact::parse(written.print().as_bytes()).expect("whole");
        assert_eq!(read, written);
        assert_eq!(read.cost().per_prefill_token_us, StepCost::GUESS.per_prefill_token_us);
    }

    #[test]
    fn garbage_is_told_in_a_line() {
        let whole = artifact().print();
        let changed = |from: &str, to: &str| {
            assert!(whole.contains(from), "{from}");
            whole.replace(from, to)
        };
        for (text, told) in [
            (String::new(), "not a calibration"),
            ("[1, 2]".into(), "not a calibration"),
            (whole[..whole.len() / 2].into(), "not a calibration"),
            (changed("\"format\": 1", "\"format\": 2"), "its format is 2, not 1"),
            (changed("\"base_us\": 4000.0", "\"base_us\": -1.0"), "its base_us cannot be"),
            (changed("\"base_us\": 4000.0", "\"base_us\": 1e300"), "its base_us cannot be"),
            (changed("\"base_us\": 4000.0", "\"base_us\": 1e999"), "not a calibration"),
            (changed("200.25", "-9e9"), "its bend cannot be"),
            (changed("\"threads\": 2", "\"threads\": 0"), "its threads cannot be"),
            (changed("\"prefill_tokens\": 256", "\"prefill_tokens\": 321"), "its prefill_tokens"),
            (changed("streams", "heaps"), "not a calibration"),
        ] {
            let error = Artifact::parse(text.as_bytes()).expect_err("garbage").to_string();
            assert!(error.contains(told) && !error.contains('\n'), "{told}: {error}");
        }
        let mut bytes = whole.into_bytes();
        for at in (0..bytes.len()).step_by(3) {
            bytes[at] ^= 0x55;
            let _ = Artifact::parse(&bytes);
        }
    }

    #[test]
    fn what_is_of_something_else_is_refused_by_name() {
        let ours = provenance();
        let told = |theirs: Provenance| theirs.holds_for(&ours).map_err(|it| it.to_string());
        assert_eq!(told(ours.clone()), Ok(()));
        let machine = |cpu: &str, processors| Machine { cpu: cpu.into(), processors };
        for (theirs, what) in [
            (Provenance { model_sha256: "cd".repeat(32), ..ours.clone() }, "another model"),
            (Provenance { model_bytes: 7, ..ours.clone() }, "another model"),
            (Provenance { machine: machine("another", 2), ..ours.clone() }, "another"),
            (Provenance { machine: machine("a processor", 64), ..ours.clone() }, "64"),
            (Provenance { engine: "0.0.9".into(), ..ours.clone() }, "engine-worker 0.0.9"),
            (Provenance { planner: "rules-0".into(), ..ours.clone() }, "planner rules-0"),
            (Provenance { backend: "llama 0".into(), ..ours.clone() }, "llama.cpp llama 0"),
        ] {
            let error = told(theirs).expect_err("of something else");
            assert!(error.contains(what), "{error}");
        }
    }
}
