//! The project's text files, read once and shared by every check.
//!
//! The folder is walked rather than asked of git: the checks see what is about to be committed, and
//! need no repository.

use std::{fs, path::Path};

use anyhow::Context as _;

/// Folders that hold nothing of the project's own.
const FOREIGN: [&str; 5] = [".git", ".cache", ".run", "node_modules", "target"];
/// Written by tools.
const GENERATED: [&str; 1] = ["Cargo.lock"];

/// A text file.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    /// Relative to the project, with `/`.
    pub(crate) path: String,
    /// All of it.
    pub(crate) text: String,
}

impl Source {
    /// Whether this is Rust.
    pub(crate) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Whether this is Rust that ships: sources, not tests, benches or build scripts.
    pub(crate) fn ships(&self) -> bool {
        self.is_rust() && self.path.contains("/src/") && !self.path.ends_with("/tests.rs")
    }
}

/// Every text file under `root`, in the order of their paths. What is not UTF-8 is no text.
///
/// # Errors
/// A folder or file cannot be read.
pub(crate) fn walk(root: &Path) -> anyhow::Result<Vec<Source>> {
    let mut sources = Vec::new();
    visit(root, "", &mut sources)?;
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(sources)
}

fn visit(root: &Path, folder: &str, sources: &mut Vec<Source>) -> anyhow::Result<()> {
    let here = root.join(folder);
    let entries = fs::read_dir(&here).with_context(|| format!("cannot list {}", here.display()))?;
    for entry in entries {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
        let kind = entry.file_type()?;
        if kind.is_dir() && !FOREIGN.contains(&name.as_str()) {
            visit(root, &path, sources)?;
        } else if kind.is_file() && !GENERATED.contains(&name.as_str()) {
            let bytes = fs::read(entry.path()).with_context(|| format!("cannot read {path}"))?;
            sources.extend(String::from_utf8(bytes).ok().map(|text| Source { path, text }));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_walk_sees_text_of_the_project_only() {
        let root = tempfile::tempdir().expect("a folder");
        let write = |path: &str, bytes: &[u8]| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
            fs::write(path, bytes).expect("a file");
        };
        write("b/src/lib.rs", b"//! B.");
        write("a.md", b"text");
        write("image.png", &[0xff, 0xfe]);
        write("Cargo.lock", b"generated");
        write("target/debug/x.rs", b"built");
        write(".ci/run", b"#!/bin/bash");
        let paths: Vec<_> =
            walk(root.path()).expect("a walk").into_iter().map(|source| source.path).collect();
        assert_eq!(paths, [".ci/run", "a.md", "b/src/lib.rs"]);
    }
}
