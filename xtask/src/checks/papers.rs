//! The documents a release needs are there, decision records carry their date, links between pages hold.

use std::path::{Path, PathBuf};

use super::Findings;
use crate::run;

const PAGES: [&str; 9] = [
    "README.md",
    "ARCHITECTURE.md",
    "GLOSSARY.md",
    "STYLE.md",
    "CHANGELOG.md",
    "SECURITY.md",
    "LICENSE",
    "docs/cli.md",
    "docs/configuration.md",
];

pub(crate) fn check() -> Findings {
    let root = run::root();
    let mut findings: Vec<String> = PAGES
        .iter()
        .filter(|page| !root.join(page).is_file())
        .map(|page| format!("{page} is missing"))
        .collect();
    findings.extend(decisions(&root.join("docs/decisions"))?);
    for page in pages(&root)? {
        findings.extend(broken_links(&root, &page)?);
    }
    Ok(findings)
}

fn decisions(directory: &Path) -> Findings {
    let names = listing(directory)?;
    let dated = |name: &str| {
        let shape: String = name.chars().take(11).map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
        shape == "0000-00-00-" && name.ends_with(".md") && name.len() > "0000-00-00-.md".len()
    };
    let wrong = names
        .iter()
        .map(|path| path.file_name().unwrap_or_default().to_string_lossy())
        .filter(|name| !dated(name));
    Ok(wrong.map(|name| format!("docs/decisions/{name}: call it YYYY-MM-DD-name.md")).collect())
}

/// Markdown pages at the top and under docs/.
fn pages(root: &Path) -> Result<Vec<PathBuf>, String> {
    let mut pages = listing(root)?;
    pages.extend(listing(&root.join("docs"))?);
    pages.extend(listing(&root.join("docs/decisions"))?);
    pages.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    Ok(pages)
}

fn listing(directory: &Path) -> Result<Vec<PathBuf>, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", directory.display());
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        found.push(entry.map_err(failed)?.path());
    }
    found.sort();
    Ok(found)
}

fn broken_links(root: &Path, page: &Path) -> Findings {
    let text = std::fs::read_to_string(page).map_err(|error| format!("{}: {error}", page.display()))?;
    let here = page.parent().unwrap_or(root);
    let broken = links(&text).filter(|target| !here.join(target).exists());
    let name = page.strip_prefix(root).unwrap_or(page).display();
    Ok(broken.map(|target| format!("{name} links to {target}, which is not there")).collect())
}

/// Targets of `[text](target)` within the checkout, without anchors.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let local = targets
        .filter(|target| !target.contains("://") && !target.starts_with(['#', '<']) && !target.contains(' '));
    local.filter_map(|target| target.split('#').next()).filter(|target| !target.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_within_the_checkout_are_found() {
        let text = "[a](docs/a.md#b) [c](https://x.y/z) [d](#e) [f](g.md)";
        assert_eq!(links(text).collect::<Vec<_>>(), ["docs/a.md", "g.md"]);
    }
}
