//! A page inside a document, between two marks: it can be made again at any time, and what differs from the data
//! can be found.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, ensure};

use super::{Page, chart, page::FIGURES};
use crate::{console, exit::Exit};

/// Writes the page into the document, and its figures beside it. A document without its marks gets them at its
/// end.
///
/// # Errors
/// Something cannot be read or written.
pub(super) fn write(page: &Page, document: &Path) -> anyhow::Result<Exit> {
    let old = read(document)?;
    let new =
        placed(page, &old)?.unwrap_or_else(|| format!("{}\n\n{}", old.trim_end(), block(page)));
    for (path, bytes) in files(page, document)? {
        let cannot = || format!("cannot write {}", path.display());
        fs::create_dir_all(path.parent().expect("a file in a folder")).with_context(cannot)?;
        fs::write(&path, bytes).with_context(cannot)?;
    }
    if new != old {
        fs::write(document, new).with_context(|| format!("cannot write {}", document.display()))?;
    }
    console::say(&format!("{} is in {}", page.name, document.display()));
    Ok(Exit::Done)
}

/// Whether all of it is there as it would be written; says what is not.
///
/// # Errors
/// The document cannot be read.
pub(super) fn check(page: &Page, document: &Path) -> anyhow::Result<Exit> {
    let old = read(document)?;
    let mut differs = Vec::new();
    match placed(page, &old)? {
        None => differs.push(format!("{} has no {}", document.display(), page.name)),
        Some(new) if new != old => {
            let line = new.lines().zip(old.lines()).take_while(|(new, old)| new == old).count() + 1;
            differs.push(format!("{}:{line} is not what the data say", document.display()));
        }
        Some(_) => {}
    }
    for (path, bytes) in files(page, document)? {
        if fs::read(&path).ok().as_ref() != Some(&bytes) {
            differs.push(format!("{} is not what the data say", path.display()));
        }
    }
    for line in &differs {
        console::note(line);
    }
    if differs.is_empty() {
        return Ok(Exit::Done);
    }
    console::note("loadgen report FOLDER --embed DOCUMENT writes it anew");
    Ok(Exit::Failed)
}

fn read(document: &Path) -> anyhow::Result<String> {
    fs::read_to_string(document).with_context(|| format!("cannot read {}", document.display()))
}

fn marks(page: &Page) -> [String; 2] {
    let name = &page.name;
    [
        format!("<!-- ladder {name}: generated from its cells -->"),
        format!("<!-- end of ladder {name} -->"),
    ]
}

fn block(page: &Page) -> String {
    let [begin, end] = marks(page);
    format!("{begin}\n\n{}\n{end}\n", page.text)
}

/// The document with the page in its place; absent where there is none.
fn placed(page: &Page, old: &str) -> anyhow::Result<Option<String>> {
    let [begin, end] = marks(page);
    let Some((before, rest)) = old.split_once(&begin) else { return Ok(None) };
    let inside = rest.split_once(&format!("{end}\n"));
    let (_, after) = inside.with_context(|| format!("{begin:?} without {end:?} after it"))?;
    ensure!(!after.contains(&begin), "{begin:?} is there twice");
    Ok(Some(format!("{before}{}{after}", block(page))))
}

/// The figures, and where they belong.
fn files(page: &Page, document: &Path) -> anyhow::Result<Vec<(PathBuf, Vec<u8>)>> {
    let folder = document.parent().unwrap_or(Path::new("")).join(FIGURES);
    let mut files = Vec::new();
    for figure in &page.figures {
        let picture = chart::render(figure)?;
        let path = |end: &str| folder.join(format!("{}.{end}", figure.file));
        files.extend([(path("svg"), picture.svg.into_bytes()), (path("png"), picture.png)]);
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::figures::{Figure, Series};

    fn page() -> Page {
        let line = vec![(0.0, 1.0), (1.0, 2.0)];
        let series = Series {
            name: "one".into(),
            points: line.clone(),
            band: vec![(0.0, 0.5, 1.5), (1.0, 1.0, 3.0)],
            line,
            colour: 0,
            is_faint: false,
            is_marked: true,
        };
        let figure = Figure {
            file: "x".into(),
            title: "a figure".into(),
            x: "x",
            y: "y",
            log_x: false,
            log_y: false,
            legend_beside: true,
            series: vec![series],
        };
        Page { name: "p".into(), text: "a table\n".into(), figures: vec![figure] }
    }

    #[test]
    fn a_page_goes_between_its_marks_and_nowhere_else() {
        let folder = tempfile::tempdir().unwrap();
        let document = folder.path().join("doc.md");
        fs::write(&document, "before\n").unwrap();
        assert_eq!(check(&page(), &document).unwrap(), Exit::Failed, "it is not there yet");
        write(&page(), &document).unwrap();
        fs::write(&document, fs::read_to_string(&document).unwrap() + "after\n").unwrap();
        write(&Page { text: "another\n".into(), ..page() }, &document).unwrap();
        let text = fs::read_to_string(&document).unwrap();
        assert!(text.starts_with("before\n\n<!-- ladder p") && text.ends_with("after\n"), "{text}");
        assert!(text.contains("another") && !text.contains("a table"), "{text}");
    }

    #[test]
    fn one_changed_byte_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let document = folder.path().join("doc.md");
        fs::write(&document, "").unwrap();
        write(&page(), &document).unwrap();
        assert_eq!(check(&page(), &document).unwrap(), Exit::Done);
        for file in ["doc.md", "figures/x.svg", "figures/x.png"] {
            let file = folder.path().join(file);
            let good = fs::read(&file).unwrap();
            let mut bad = good.clone();
            let middle = bad.len() / 2;
            bad[middle] ^= 1;
            fs::write(&file, bad).unwrap();
            assert_eq!(check(&page(), &document).unwrap(), Exit::Failed, "{}", file.display());
            fs::write(&file, good).unwrap();
        }
        assert_eq!(check(&page(), &document).unwrap(), Exit::Done);
    }

    #[test]
    fn half_a_pair_of_marks_is_an_error() {
        let [begin, _] = marks(&page());
        assert!(placed(&page(), &begin).is_err());
        let two = block(&page()).repeat(2);
        assert!(placed(&page(), &two).is_err());
    }
}
