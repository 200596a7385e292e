//! The programs of a stack, and how they are called.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::SystemTime,
};

use anyhow::{Context as _, bail, ensure};

use super::{Addresses, Spec, Stack};
use crate::ladder::{Options, plan::Plan};

/// Variables that begin so set what services do: only the plan may.
const OWN_VARS: &str = "CADENCE_";

/// Where the programs and the model are.
pub(super) struct Programs {
    paths: BTreeMap<String, PathBuf>,
    /// When each was built.
    built: BTreeMap<String, SystemTime>,
    pub(super) model: Option<PathBuf>,
}

/// How a process is started.
pub(super) struct Call {
    pub(super) program: PathBuf,
    pub(super) args: Vec<OsString>,
    pub(super) grace_s: u64,
}

impl Programs {
    /// Finds all of them.
    ///
    /// # Errors
    /// One that is missing.
    pub(super) fn find(stack: &Stack, plan: &Plan, options: &Options) -> anyhow::Result<Self> {
        let here = std::env::current_exe().context("cannot tell where this program is")?;
        let beside = here.parent().context("this program is in no folder")?.to_owned();
        let folder = options.bin_dir.clone().or_else(|| plan.bin_dir.clone()).unwrap_or(beside);
        let path = |spec: &Spec| Ok((spec.program.clone(), find(&folder, &spec.program)?));
        let paths = stack.all().map(path).collect::<anyhow::Result<_>>()?;
        let built = built(&paths)?;
        let model = options.model.clone().or_else(|| plan.model.clone());
        if let Some(model) = &model {
            ensure!(model.is_file(), "model: there is no file {}", model.display());
        }
        Ok(Self { paths, built, model })
    }

    /// Whether all of them are still those that were found.
    ///
    /// # Errors
    /// The first that was built anew.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        let now = built(&self.paths)?;
        let changed = now.iter().find(|(name, time)| self.built.get(*name) != Some(time));
        changed.map_or(Ok(()), |(name, _)| bail!("{name} was built anew while the ladder ran"))
    }

    /// Where a program is.
    pub(super) fn path(&self, spec: &Spec) -> &Path {
        &self.paths[&spec.program]
    }

    /// How a process is started.
    pub(super) fn command(
        &self,
        spec: &Spec,
        settings: &BTreeMap<String, String>,
        addresses: &Addresses,
    ) -> Call {
        let mut args: Vec<OsString> =
            spec.args.iter().map(|arg| addresses.fill(arg).into()).collect();
        if let Some(model) = &self.model {
            args.extend(spec.model_args.iter().map(|arg| match arg.as_str() {
                "{model}" => model.clone().into_os_string(),
                other => other.into(),
            }));
        }
        args.extend(flags(settings));
        Call { program: self.path(spec).to_owned(), args, grace_s: spec.grace_s }
    }

    /// What a program says that its settings are; nothing where it cannot say.
    ///
    /// # Errors
    /// It does not take them; its own words.
    pub(super) fn settings_of(
        &self,
        spec: &Spec,
        settings: &BTreeMap<String, String>,
    ) -> anyhow::Result<String> {
        if spec.print_args.is_empty() {
            return Ok(settings.iter().map(|(key, value)| format!("{key} = {value}\n")).collect());
        }
        let mut command = Command::new(self.path(spec));
        command.args(flags(settings)).args(&spec.print_args).stdin(Stdio::null());
        let output = quiet(&mut command).output();
        let output = output.with_context(|| format!("cannot run {}", spec.program))?;
        let said = String::from_utf8_lossy(&output.stderr);
        let said: Vec<_> = said.split_whitespace().collect();
        ensure!(output.status.success(), "{}", said.join(" "));
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

fn built(paths: &BTreeMap<String, PathBuf>) -> anyhow::Result<BTreeMap<String, SystemTime>> {
    let time = |(name, path): (&String, &PathBuf)| {
        let time = path.metadata().and_then(|data| data.modified());
        Ok((name.clone(), time.with_context(|| format!("cannot read {}", path.display()))?))
    };
    paths.iter().map(time).collect()
}

/// Settings as flags.
fn flags(settings: &BTreeMap<String, String>) -> impl Iterator<Item = OsString> {
    settings.iter().flat_map(|(key, value)| {
        [format!("--{}", key.replace('_', "-")).into(), value.clone().into()]
    })
}

/// Takes out of the environment what would set something.
pub(super) fn quiet(command: &mut Command) -> &mut Command {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with(OWN_VARS) {
            command.env_remove(name);
        }
    }
    command
}

fn find(folder: &Path, program: &str) -> anyhow::Result<PathBuf> {
    let search = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(folder.to_owned()).chain(std::env::split_paths(&search));
    let found = folders.map(|folder| folder.join(program)).find(|path| path.is_file());
    found.with_context(|| {
        format!("there is no program {program} in {}: build it, or say --bin-dir", folder.display())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_become_flags() {
        let settings = [("kv_core".into(), "paged".into()), ("slots".into(), "8".into())].into();
        assert_eq!(flags(&settings).collect::<Vec<_>>(), ["--kv-core", "paged", "--slots", "8"]);
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = find(Path::new("/nowhere"), "there-is-no-such").unwrap_err();
        assert!(error.to_string().contains("there is no program there-is-no-such in /nowhere"));
    }
}
