//! A ladder as tables and figures, made from the files of its cells and from nothing else.

mod curves;
mod embed;
mod grid;
mod metric;
mod noise;
mod page;
mod tables;
mod worse;

use std::path::Path;

use workload::Slo;

use super::{chart, figures::Figure};
use crate::exit::Exit;
use grid::Grid;

/// A ladder's page: text with links to its figures.
struct Page {
    /// The plan's name.
    name: String,
    text: String,
    figures: Vec<Figure>,
}

fn page(folder: &Path, slo: Option<Slo>) -> anyhow::Result<Page> {
    Ok(page::of(&Grid::load(folder, slo)?))
}

/// The text, without figures.
///
/// # Errors
/// The folder has no cells of a ladder, or they cannot be read.
pub(super) fn text(folder: &Path, slo: Option<Slo>) -> anyhow::Result<String> {
    Ok(page(folder, slo)?.text)
}

/// Writes `report.md` and its figures into `out`.
///
/// # Errors
/// The same, or the folder cannot be written.
pub(super) fn write(folder: &Path, slo: Option<Slo>, out: &Path) -> anyhow::Result<()> {
    let page = page(folder, slo)?;
    std::fs::create_dir_all(out.join(page::FIGURES))?;
    for figure in &page.figures {
        chart::draw(figure, &out.join(page::FIGURES))?;
    }
    Ok(std::fs::write(out.join("report.md"), format!("# {}\n\n{}", page.name, page.text))?)
}

/// Puts the page between its marks in `document`, and its figures beside it; or only says whether that would
/// change anything.
///
/// # Errors
/// The same, or the document cannot be read.
pub(super) fn embed(folder: &Path, document: &Path, check: bool) -> anyhow::Result<Exit> {
    let page = page(folder, None)?;
    if check { embed::check(&page, document) } else { embed::write(&page, document) }
}
