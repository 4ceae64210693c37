//! What people read of a result: one page with its figures, as HTML and as Markdown.
//!
//! Figures are SVG of our own ([`svg`] says why). Invariants: the same result gives the same bytes; nothing is loaded from
//! elsewhere; whatever comes from files or servers is escaped; what could not be measured is said, not left out.

pub mod axis;
pub mod compare;
pub mod document;
pub mod figure;
pub mod html;
pub mod markdown;
pub mod papers;
pub mod pictures;
pub mod plane;
pub mod quantity;
pub mod readings;
pub mod side;
pub mod spread;
pub mod story;
pub mod svg;
pub mod terminal;

#[cfg(test)]
pub(crate) mod tests;

use std::path::Path;
use std::{fs, io};

use crate::result::LabResult;
use document::{Block, Document};
use readings::Book;

/// Writes `report.html`, `report.md` and `plots/*.svg` beside a result.
pub fn write(directory: &Path, result: &LabResult) -> io::Result<()> {
    let document = story::tell(&Book::open(directory, result));
    fs::write(directory.join("report.html"), html::render(&document))?;
    fs::write(directory.join("report.md"), markdown::render(&document))?;
    plots(directory, &document)
}

/// Writes `report.html` and `report.md` of a result to where it is kept; the figures are in the page only.
pub fn write_kept(directory: &Path, result: &LabResult, to: &Path) -> io::Result<()> {
    let document = story::tell(&Book::open(directory, result));
    fs::write(to.join("report.html"), html::render(&document))?;
    fs::write(to.join("report.md"), markdown::render_without_figures(&document))
}

/// Writes the figures as files of their own; those of an earlier report go.
fn plots(directory: &Path, document: &Document) -> io::Result<()> {
    let plots = directory.join(markdown::PLOTS);
    fs::create_dir_all(&plots)?;
    for entry in fs::read_dir(&plots)? {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "svg") {
            fs::remove_file(path)?;
        }
    }
    each(&document.blocks, &mut |block| match block {
        Block::Figure(figure) => {
            fs::write(plots.join(format!("{}.svg", figure.name)), figure.svg.clone().file())
        }
        _ => Ok(()),
    })
}

fn each(blocks: &[Block], act: &mut dyn FnMut(&Block) -> io::Result<()>) -> io::Result<()> {
    for block in blocks {
        act(block)?;
        if let Block::Details(_, inner) = block {
            each(inner, act)?;
        }
    }
    Ok(())
}
