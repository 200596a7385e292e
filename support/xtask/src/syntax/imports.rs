//! What a file imports, and what its short names stand for.

use std::collections::BTreeMap;

use syn::{
    File, ItemUse, UseTree,
    visit::{self, Visit},
};

use super::Named;

/// One name that a `use` brings in.
pub(super) struct Import {
    /// What it is called in this file.
    local: String,
    /// Its full path.
    pub(super) full: Named,
}

/// The names that `item` brings in.
pub(super) fn imports(item: &ItemUse) -> Vec<Import> {
    let mut found = Vec::new();
    flatten(&item.tree, "", &mut found);
    found
}

fn flatten(tree: &UseTree, prefix: &str, found: &mut Vec<Import>) {
    let join =
        |name: &str| if prefix.is_empty() { name.into() } else { format!("{prefix}::{name}") };
    let (local, name, line) = match tree {
        UseTree::Path(path) => return flatten(&path.tree, &join(&path.ident.to_string()), found),
        UseTree::Group(group) => {
            return group.items.iter().for_each(|tree| flatten(tree, prefix, found));
        }
        UseTree::Name(name) if name.ident == "self" => {
            let local = prefix.rsplit("::").next().unwrap_or(prefix);
            (local.to_owned(), prefix.to_owned(), name.ident.span().start().line)
        }
        UseTree::Name(name) => {
            let local = name.ident.to_string();
            (local.clone(), join(&local), name.ident.span().start().line)
        }
        UseTree::Rename(name) => {
            let ident = name.ident.to_string();
            let full = if ident == "self" { prefix.to_owned() } else { join(&ident) };
            (name.rename.to_string(), full, name.ident.span().start().line)
        }
        UseTree::Glob(glob) => ("*".into(), join("*"), glob.star_token.span.start().line),
    };
    found.push(Import { local, full: Named { name, line } });
}

/// Full paths by the names that a file gives them.
#[derive(Default)]
pub(super) struct Aliases(BTreeMap<String, String>);

impl Aliases {
    /// Those of a whole file, whatever scope they are in.
    pub(super) fn of(file: &File) -> Self {
        let mut aliases = Self::default();
        aliases.visit_file(file);
        aliases
    }

    /// `path` with its first segment spelt out.
    pub(super) fn resolve(&self, path: &str) -> String {
        let (head, rest) = path.split_once("::").unwrap_or((path, ""));
        match self.0.get(head) {
            Some(full) if rest.is_empty() => full.clone(),
            Some(full) => format!("{full}::{rest}"),
            None => path.to_owned(),
        }
    }
}

impl<'ast> Visit<'ast> for Aliases {
    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        self.0.extend(imports(item).into_iter().map(|import| (import.local, import.full.name)));
        visit::visit_item_use(self, item);
    }
}
