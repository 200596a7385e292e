//! What a re-quantised model file says of itself: what it was made of, with what, and how it compares.
//!
//! It stands in the file's own metadata, as JSON under one key, so that it cannot be lost on the way.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

/// The key in the metadata.
pub(crate) const KEY: &str = "cadence.optimized";

/// How many times the original's perplexity a file may have that takes its place.
pub(crate) const RATIO_MAX: f64 = 1.005;

/// Where a re-quantised file comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// What wrote it.
    pub maker: Maker,
    /// The file that it was made of.
    pub source: Source,
    /// How its weights are written, such as `q8_0`.
    #[serde(rename = "type")]
    pub to: String,
    /// What was measured when it was made.
    pub report: Report,
}

/// What wrote a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Maker {
    /// This program and its version.
    pub tool: String,
    /// The build of llama.cpp.
    pub llama_cpp: String,
}

/// A file, as it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// Its name, without folders.
    pub name: String,
    /// Its SHA-256, in hexadecimal.
    pub sha256: String,
    /// Its length.
    pub bytes: u64,
}

/// How the new file compares with the original.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// What it was measured on: processor, threads.
    pub machine: String,
    /// What both files read.
    pub text: Source,
    /// How much alike they are.
    pub likeness: Likeness,
    /// How fast they are.
    pub speed: Vec<Speed>,
}

/// How alike two files are, token by token of one text.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Likeness {
    /// Tokens that were scored.
    pub tokens: usize,
    /// The perplexity of the original.
    pub original: f64,
    /// The perplexity of the new file.
    pub optimized: f64,
    /// The second over the first.
    pub ratio: f64,
    /// The standard error of the ratio, from differences token by token.
    pub ratio_error: f64,
    /// In which share of the tokens both hold the same one for the likeliest, from 0 to 1.
    pub same_top: f64,
}

/// How fast two files are at one kind of work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Speed {
    /// The work.
    pub work: String,
    /// Tokens per second of the original: the median over the rounds.
    pub original: f64,
    /// Tokens per second of the new file, likewise.
    pub optimized: f64,
    /// The median of the ratios of the rounds.
    pub ratio: f64,
    /// The least of them.
    pub ratio_min: f64,
    /// The largest.
    pub ratio_max: f64,
}

/// Whether a file may take the original's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is as good, and faster.
    Good,
    /// Its perplexity is above the bound.
    Differs,
    /// It is as good and no faster.
    NoFaster,
}

impl Provenance {
    /// As it stands in the metadata.
    pub(crate) fn to_json(&self) -> String {
        serde_json::to_string(self).expect("plain data becomes JSON")
    }

    /// Reads what stands in the metadata.
    ///
    /// # Errors
    /// It is of another version, or of somebody else.
    pub(crate) fn from_json(text: &str) -> serde_json::Result<Self> {
        serde_json::from_str(text)
    }

    /// Whether the file may take the original's place. A ratio that is no number says no.
    pub(crate) fn verdict(&self) -> Verdict {
        let Report { likeness, speed, .. } = &self.report;
        let gain: f64 = speed.iter().map(|it| it.ratio.ln()).sum();
        if likeness.ratio <= RATIO_MAX {
            if gain > 0.0 { Verdict::Good } else { Verdict::NoFaster }
        } else {
            Verdict::Differs
        }
    }

    /// One line.
    pub(crate) fn summary(&self) -> String {
        let Report { likeness, speed, .. } = &self.report;
        let mut line = format!("{} of {}:", self.to, self.source.name);
        for it in speed {
            let _ = write!(line, " {} {:.2}x,", it.work, it.ratio);
        }
        let Likeness { ratio, ratio_error, same_top, .. } = likeness;
        let _ = write!(line, " perplexity {ratio:.4}x +- {ratio_error:.4}");
        let _ = write!(line, ", the same top token in {:.1} %", same_top * 100.0);
        line
    }

    /// All figures.
    pub(crate) fn table(&self) -> String {
        let Report { machine, text, likeness, speed } = &self.report;
        let mut table = format!("{:24}{:>10}{:>10}  ratio\n", "", "original", self.to);
        for it in speed {
            let Speed { work, original, optimized, ratio, ratio_min, ratio_max } = it;
            let _ = write!(table, "{work:24}{original:10.1}{optimized:10.1}");
            let _ = writeln!(table, "  {ratio:.3} ({ratio_min:.3} to {ratio_max:.3})  tokens/s");
        }
        let Likeness { tokens, original, optimized, ratio, ratio_error, same_top } = likeness;
        let _ = write!(table, "{:24}{original:10.3}{optimized:10.3}", "perplexity");
        let _ = writeln!(table, "  {ratio:.4} +- {ratio_error:.4}");
        let _ = writeln!(table, "{:24}{:>19.1}%", "same top token", same_top * 100.0);
        let _ = write!(table, "on {tokens} tokens of {}; {machine}", text.name);
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn provenance(perplexity: f64, speeds: &[f64]) -> Provenance {
        let source = Source { name: "m.gguf".into(), sha256: "ab".into(), bytes: 3 };
        let speed = speeds.iter().map(|&ratio| Speed {
            work: "decode at 1".into(),
            original: 100.0,
            optimized: 100.0 * ratio,
            ratio,
            ratio_min: ratio,
            ratio_max: ratio,
        });
        let likeness = Likeness {
            tokens: 8,
            original: 20.0,
            optimized: 20.0 * perplexity,
            ratio: perplexity,
            ratio_error: 0.001,
            same_top: 0.958,
        };
        let text = source.clone();
        let report = Report { machine: "m".into(), text, likeness, speed: speed.collect() };
        let maker = Maker { tool: "t".into(), llama_cpp: "l".into() };
        Provenance { maker, source, to: "q8_0".into(), report }
    }

    #[test]
    fn what_may_take_the_originals_place_is_as_good_and_faster() {
        for (perplexity, speeds, verdict) in [
            (1.002, &[1.9, 1.1, 1.2][..], Verdict::Good),
            (0.99, &[1.9, 0.9, 1.0], Verdict::Good),
            (RATIO_MAX, &[1.01], Verdict::Good),
            (1.0051, &[3.0], Verdict::Differs),
            (f64::NAN, &[3.0], Verdict::Differs),
            (1.0, &[1.0], Verdict::NoFaster),
            (1.0, &[1.1, 0.8], Verdict::NoFaster),
            (1.0, &[f64::NAN], Verdict::NoFaster),
        ] {
            assert_eq!(
                provenance(perplexity, speeds).verdict(),
                verdict,
                "{perplexity} {speeds:?}"
            );
        }
    }

    #[test]
    fn it_is_one_line_and_comes_back_from_the_metadata() {
        let whole = provenance(1.002, &[1.5]);
        assert_eq!(
            whole.summary(),
            "q8_0 of m.gguf: decode at 1 1.50x, perplexity 1.0020x +- 0.0010, the same top token in 95.8 %"
        );
        assert_eq!(Provenance::from_json(&whole.to_json()).expect("ours"), whole);
        assert!(Provenance::from_json("{}").is_err());
    }
}
