//! The rules of the house that no compiler knows, each a small function from what it reads to what is
//! wrong: which crate may use which ([`edges`]), what `core/` may not touch ([`purity`]), where
//! `unsafe` may stand ([`lints`]), that invariants have names ([`invariants`]), that the tests
//! are there which documents name ([`named_tests`]), how long files and functions may be ([`size`]), and
//! what must not be committed ([`leftovers`]).

mod edges;
mod invariants;
mod leftovers;
mod lints;
mod named_tests;
mod purity;
mod size;

use std::{fmt, path::Path};

use anyhow::Context as _;
use cargo_metadata::{DependencyKind, MetadataCommand};

use crate::{
    source::{self, Source},
    syntax::Outline,
};

/// What is wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Violation {
    path: String,
    line: usize,
    message: String,
}

impl Violation {
    fn new(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, message: message.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}: {}", self.path, self.line, self.message)
    }
}

/// A crate of the workspace.
#[derive(Debug, Clone)]
struct Member {
    name: String,
    /// Path and text of its Cargo.toml.
    manifest: Source,
    dependencies: Vec<Dependency>,
}

/// A direct dependency.
#[derive(Debug, Clone)]
struct Dependency {
    name: String,
    /// Only tests and benches see it.
    dev: bool,
    /// It is a crate of this workspace.
    ours: bool,
}

impl Member {
    /// Where the manifest names a dependency.
    fn line_of(&self, dependency: &str) -> usize {
        let names = |line: &str| {
            line.strip_prefix(dependency).is_some_and(|rest| rest.starts_with(['.', ' ', '=']))
        };
        self.manifest.text.lines().position(names).map_or(1, |index| index + 1)
    }

    /// Whether it must be pure.
    fn is_core(&self) -> bool {
        self.manifest.path.starts_with("core/")
    }
}

/// Runs every check on the project at `root`; the result is sorted, one line each.
///
/// # Errors
/// The project cannot be read, or a Rust file cannot be parsed.
pub(crate) fn run(root: &Path) -> anyhow::Result<Vec<String>> {
    let sources = source::walk(root)?;
    let members = members(root, &sources)?;
    let mut found = Vec::new();
    found.extend(edges::check(&members));
    found.extend(purity::check_dependencies(&members));
    let workspace = sources.iter().find(|source| source.path == "Cargo.toml");
    let workspace = workspace.context("there is no Cargo.toml")?;
    found.extend(lints::check_manifests(&members, &workspace.text));
    found.extend(invariants::check(&sources));
    found.extend(leftovers::check(&sources));
    found.extend(named_tests::check(&sources));
    for source in sources.iter().filter(|source| source.is_rust()) {
        found.extend(lints::check_unsafe(source).with_context(|| source.path.clone())?);
    }
    for source in sources.iter().filter(|source| source.ships()) {
        let outline = Outline::parse(&source.text).with_context(|| source.path.clone())?;
        found.extend(purity::check_source(source, &outline));
        found.extend(size::check(source, &outline));
    }
    found.sort();
    Ok(found.iter().map(Violation::to_string).collect())
}

fn members(root: &Path, sources: &[Source]) -> anyhow::Result<Vec<Member>> {
    let metadata = MetadataCommand::new()
        .manifest_path(root.join("Cargo.toml"))
        .no_deps()
        .other_options(vec!["--offline".into()])
        .exec()?;
    let base = &metadata.workspace_root;
    metadata
        .packages
        .iter()
        .map(|package| {
            let path = package.manifest_path.strip_prefix(base)?.as_str();
            let manifest = sources.iter().find(|source| source.path == path).cloned();
            let dependencies = package.dependencies.iter().map(|dependency| Dependency {
                name: dependency.name.clone(),
                dev: dependency.kind == DependencyKind::Development,
                ours: dependency.path.is_some(),
            });
            Ok(Member {
                name: package.name.to_string(),
                manifest: manifest.with_context(|| format!("{path} is not in the project"))?,
                dependencies: dependencies.collect(),
            })
        })
        .collect()
}

/// Makers of bad examples.
#[cfg(test)]
mod examples {
    use super::*;

    pub(super) fn source(path: &str, text: &str) -> Source {
        Source { path: path.into(), text: text.into() }
    }

    /// A member whose manifest lists `dependencies` one a line from line 2 on. `dev:` and `ours:`
    /// before a name say what it is.
    pub(super) fn member(folder: &str, name: &str, dependencies: &[&str]) -> Member {
        let dependencies: Vec<_> = dependencies
            .iter()
            .map(|text| {
                let (text, dev) = text.strip_prefix("dev:").map_or((*text, false), |it| (it, true));
                let (name, ours) =
                    text.strip_prefix("ours:").map_or((text, false), |it| (it, true));
                Dependency { name: name.into(), dev, ours }
            })
            .collect();
        let lines: Vec<_> =
            dependencies.iter().map(|it| format!("{}.workspace = true", it.name)).collect();
        let text = format!("[dependencies]\n{}\n", lines.join("\n"));
        let manifest = source(&format!("{folder}/Cargo.toml"), &text);
        Member { name: name.into(), manifest, dependencies }
    }

    pub(super) fn lines(found: impl IntoIterator<Item = Violation>) -> Vec<String> {
        found.into_iter().map(|violation| violation.to_string()).collect()
    }
}
