//! Which cell of which ladder a run is.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Everything that a cell adds to the provenance of its run: a report needs nothing but the files of cells.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Cell {
    /// The plan's name.
    pub(crate) ladder: String,
    /// SHA-256 of what the plan says.
    pub(crate) plan: String,
    pub(crate) rung: String,
    /// The rung in a few words, and what it adds.
    pub(crate) title: String,
    pub(crate) adds: String,
    /// Its place among the plan's rungs.
    pub(crate) place: usize,
    /// The rung that it is compared with.
    pub(crate) against: Option<String>,
    /// 0, or which repetition of the same cell this is.
    pub(crate) replicate: u32,
    /// Its place in the order in which cells are measured.
    pub(crate) number: usize,
    /// How often it was tried, this time included.
    pub(crate) attempt: u32,
    /// Why there are no rows, if there are none.
    pub(crate) failed: Option<String>,
    /// Why the rows say nothing about the server.
    pub(crate) invalid: Option<String>,
    pub(crate) origin: Origin,
    /// The settings of each process, in its own words.
    pub(crate) settings: BTreeMap<String, String>,
    /// What fixed work took just before.
    pub(crate) probes: Vec<Probe>,
}

/// What was measured, and by what: the same in all cells of a ladder.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Origin {
    /// `machine`, or whatever else makes the cells.
    pub(crate) runner: String,
    /// The state of the source, as far as it is known.
    pub(crate) source: Option<String>,
    /// Programs and other files by name, with the beginning of their SHA-256.
    pub(crate) files: BTreeMap<String, String>,
    /// The model's file, likewise.
    pub(crate) model: Option<(String, String)>,
}

/// One answer on an idle engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Probe {
    pub(crate) prompt_tokens: u32,
    /// From sending to the first token, in microseconds.
    pub(crate) ttft_us: u64,
    pub(crate) tokens: u32,
    /// From the first to the last token, in microseconds.
    pub(crate) decode_us: u64,
}

impl Origin {
    /// In what this differs from `other`, in words; absent where they are the same.
    pub(crate) fn differs(&self, other: &Self) -> Option<String> {
        let show = |text: Option<&str>| text.unwrap_or("nothing").to_owned();
        let pair = |what: &str, mine: Option<&str>, theirs: Option<&str>| {
            (mine != theirs).then(|| format!("{what} {}, not {}", show(mine), show(theirs)))
        };
        let names = self.files.keys().chain(other.files.keys());
        let file = names
            .filter_map(|name| {
                let of = |origin: &Self| origin.files.get(name).cloned();
                pair(name, of(self).as_deref(), of(other).as_deref())
            })
            .next();
        let model = |origin: &Self| origin.model.as_ref().map(|(_, hash)| hash.clone());
        pair("runner", Some(&self.runner), Some(&other.runner))
            .or(file)
            .or_else(|| pair("model", model(self).as_deref(), model(other).as_deref()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_named() {
        let one = Origin {
            runner: "machine".into(),
            files: [("gateway".into(), "abc".into())].into(),
            model: Some(("m.gguf".into(), "1".into())),
            ..Origin::default()
        };
        assert_eq!(one.differs(&one), None);
        let source = Origin { source: Some("a commit".into()), ..one.clone() };
        assert_eq!(one.differs(&source), None, "the same programs, whatever lies beside them");
        let built = Origin { files: [("gateway".into(), "def".into())].into(), ..one.clone() };
        assert_eq!(one.differs(&built).as_deref(), Some("gateway abc, not def"));
        let gone = Origin { files: BTreeMap::new(), ..one.clone() };
        assert_eq!(one.differs(&gone).as_deref(), Some("gateway abc, not nothing"));
        let renamed = Origin { model: Some(("n.gguf".into(), "1".into())), ..one.clone() };
        assert_eq!(one.differs(&renamed), None, "a name is no content");
        let other = Origin { model: Some(("m.gguf".into(), "2".into())), ..one.clone() };
        assert_eq!(one.differs(&other).as_deref(), Some("model 1, not 2"));
    }
}
