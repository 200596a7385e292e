//! What steps cost, as `engine-worker calibrate` wrote it down.

use std::{fs::File, io::Read as _, path::Path};

use anyhow::Context as _;
use sched::{Bend, StepCost};
use serde::Deserialize;

/// The format of the files that are understood here.
const FORMAT: u32 = 1;
/// Bytes of such a file.
const BYTES_MAX: u64 = 16 << 20;

/// A calibration, as far as a simulation needs it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Model {
    pub(super) cost: StepCost,
    pub(super) batch_tokens: u32,
    pub(super) prefill_tokens: u32,
    /// The beginning of the model file's hash.
    pub(super) name: String,
}

#[derive(Deserialize)]
struct Artifact {
    format: u32,
    provenance: Provenance,
    configuration: Configuration,
    cost: Cost,
}

#[derive(Deserialize)]
struct Provenance {
    model_sha256: String,
}

#[derive(Deserialize)]
struct Configuration {
    batch_tokens: u32,
    prefill_tokens: u32,
}

#[derive(Deserialize)]
struct Cost {
    base_us: f64,
    per_decode_us: f64,
    bend_us: Vec<f64>,
    prompt_us: f64,
    per_prefill_token_us: f64,
    per_cell_us: f64,
    per_tiled_cell_us: f64,
}

/// Reads a calibration.
///
/// # Errors
/// The file cannot be read, or is none.
pub(super) fn read(path: &Path) -> anyhow::Result<Model> {
    let file = || path.display().to_string();
    let mut text = String::new();
    let opened = File::open(path).with_context(|| format!("cannot read {}", file()))?;
    opened.take(BYTES_MAX).read_to_string(&mut text).with_context(file)?;
    parse(&text).with_context(|| format!("{} is no calibration", file()))
}

fn parse(text: &str) -> anyhow::Result<Model> {
    let artifact: Artifact = serde_json::from_str(text)?;
    anyhow::ensure!(artifact.format == FORMAT, "its format is {}", artifact.format);
    let Configuration { batch_tokens, prefill_tokens } = artifact.configuration;
    let sane = (1..=batch_tokens).contains(&prefill_tokens);
    anyhow::ensure!(sane, "its prefill_tokens cannot be");
    let cost = StepCost {
        base_us: artifact.cost.base_us,
        per_decode_us: artifact.cost.per_decode_us,
        per_prefill_token_us: artifact.cost.per_prefill_token_us,
        per_cell_us: artifact.cost.per_cell_us,
        gain: 1.0,
        per_tiled_cell_us: artifact.cost.per_tiled_cell_us,
        prompt_us: artifact.cost.prompt_us,
        bend: Bend::new(&artifact.cost.bend_us),
    };
    cost.validate().map_err(|name| anyhow::anyhow!("its {name} cannot be"))?;
    let name = artifact.provenance.model_sha256.chars().take(12).collect();
    Ok(Model { cost, batch_tokens, prefill_tokens, name })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"{
        "format": 1,
        "provenance": {"model_sha256": "abcdef0123456789", "model_bytes": 1},
        "configuration": {"layout": "streams", "batch_tokens": 320, "prefill_tokens": 256},
        "cost": {"base_us": 4000.0, "per_decode_us": 4000.0, "bend_us": [0.0, -500.5],
                 "prompt_us": 10.0, "per_prefill_token_us": 2200.0, "per_cell_us": 0.1,
                 "per_tiled_cell_us": 0.05},
        "rate": 200.0
    }"#;

    #[test]
    fn what_a_calibration_says_is_taken() {
        let model = parse(TEXT).unwrap();
        assert_eq!((model.batch_tokens, model.prefill_tokens), (320, 256));
        assert_eq!(model.name, "abcdef012345");
        assert_eq!(model.cost.bend.values(), [0.0, -500.5]);
    }

    #[test]
    fn garbage_is_told() {
        for (from, to, told) in [
            ("\"format\": 1", "\"format\": 2", "its format is 2"),
            ("tokens\": 256", "tokens\": 321", "its prefill_tokens cannot be"),
            ("10.0", "-1.0", "its prompt_us cannot be"),
            ("-500.5", "-9e9", "its bend cannot be"),
            ("\"cost\"", "\"price\"", "missing field"),
        ] {
            assert!(TEXT.contains(from));
            let error = parse(&TEXT.replace(from, to)).unwrap_err().to_string();
            assert!(error.contains(told), "{error}");
        }
    }
}
