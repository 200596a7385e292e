//! The processes that serve: which programs, with which arguments, in which order. Read from a file, so that
//! this program knows none of them.

use std::{fs, path::Path};

use anyhow::{Context as _, ensure};
use serde::{Deserialize, Serialize};

use crate::ladder::plan::Plan;

/// Processes in the order in which they are started; they are stopped in the reverse order.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Stack {
    #[serde(rename = "process")]
    pub(super) processes: Vec<Spec>,
    /// A further process that lives only during the probe, and through which the probe goes.
    pub(super) probe: Option<Spec>,
}

/// A process. In `args`, `{name}` is the address of a process, `{name.port}` its port, `{model}` the model's
/// file, and `{nobody}` an address where nobody listens.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Spec {
    pub(super) name: String,
    pub(super) program: String,
    pub(super) args: Vec<String>,
    /// Further ones where a model was named.
    #[serde(default)]
    pub(super) model_args: Vec<String>,
    /// With these it says what its settings are, and ends; or what is wrong with them, and fails.
    #[serde(default)]
    pub(super) print_args: Vec<String>,
    /// It serves HTTP, and answers here with 200 when it is ready.
    pub(super) ready: Option<String>,
    /// What that answer says then: JSON pointers and values.
    #[serde(default)]
    pub(super) ready_says: std::collections::BTreeMap<String, String>,
    /// How long it may take to become ready, and to end.
    #[serde(default = "usual_ready")]
    pub(super) ready_s: u64,
    #[serde(default = "usual_grace")]
    pub(super) grace_s: u64,
}

fn usual_ready() -> u64 {
    180
}

fn usual_grace() -> u64 {
    15
}

impl Stack {
    /// Reads and checks one.
    ///
    /// # Errors
    /// It cannot be read, or makes no sense.
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        let text = fs::read_to_string(path);
        let text = text.with_context(|| format!("stack: cannot read {}", path.display()))?;
        Self::parse(&text).with_context(|| path.display().to_string())
    }

    fn parse(text: &str) -> anyhow::Result<Self> {
        let stack: Self = toml::from_str(text)?;
        let servers = stack.processes.iter().filter(|spec| spec.ready.is_some()).count();
        ensure!(servers == 1, "ready: {servers} processes have it, and one must");
        if let Some(probe) = &stack.probe {
            ensure!(probe.ready.is_some(), "probe.ready: it must have one");
        }
        let mut names: Vec<_> = stack.all().map(|spec| spec.name.as_str()).collect();
        names.sort_unstable();
        let twice = names.windows(2).find(|pair| pair[0] == pair[1]);
        ensure!(twice.is_none(), "name: two processes are called {:?}", names[0]);
        for spec in stack.all() {
            ensure!(spec.ready_s <= 86_400, "ready_s: {}, at most 86400", spec.ready_s);
            ensure!(spec.grace_s <= 3_600, "grace_s: {}, at most 3600", spec.grace_s);
        }
        Ok(stack)
    }

    /// All processes, that of the probe too.
    pub(super) fn all(&self) -> impl Iterator<Item = &Spec> {
        self.processes.iter().chain(&self.probe)
    }

    /// The one that is measured.
    pub(super) fn server(&self) -> &Spec {
        let found = self.processes.iter().find(|spec| spec.ready.is_some());
        found.expect("a checked stack")
    }

    /// Whether it has every process that a plan sets something of.
    ///
    /// # Errors
    /// The first that it does not have.
    pub(super) fn knows(&self, plan: &Plan) -> anyhow::Result<()> {
        let layers = plan.rungs.iter().map(|rung| &rung.settings).chain([&plan.settings]);
        for name in layers.flat_map(|layer| layer.keys()) {
            let known = self.processes.iter().any(|spec| spec.name == *name);
            ensure!(known, "settings.{name}: the stack has no process of that name");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "[[process]]\nname = \"a\"\nprogram = \"p\"\nargs = []\n";

    #[test]
    fn what_makes_no_sense_is_named() {
        let check = |text: &str, wanted: &str| {
            let said = format!("{:#}", Stack::parse(text).expect_err(text));
            assert!(said.contains(wanted), "{said:?} does not say {wanted:?}");
        };
        check(ONE, "ready: 0 processes have it");
        let ready = format!("{ONE}ready = \"/\"\n");
        Stack::parse(&ready).expect("a stack");
        check(&format!("{ready}{ONE}"), "name: two processes are called \"a\"");
        check(&format!("{ready}colour = 1\n"), "unknown field `colour`");
        check(&format!("{ready}grace_s = 9999\n"), "grace_s: 9999");
        check(
            &format!("{ready}[probe]\nname = \"b\"\nprogram = \"p\"\nargs = []\n"),
            "probe.ready",
        );
        check("", "missing field `process`");
    }
}
