//! ARCHITECTURE.md tells the truth: every path it names is there, every room and module directory is named,
//! the arrows are the gate's, and the hops of a PUT and of a GET are files. What a file's head names is there, too.

use std::path::Path;

use super::Findings;
use super::arrows::ARROWS;
use crate::run;
use crate::source::{self, Source};

const PAGE: &str = "ARCHITECTURE.md";
/// Hops a path through the house has at the least.
const HOPS: usize = 5;

pub(crate) fn check() -> Findings {
    let root = run::root();
    let text = std::fs::read_to_string(root.join(PAGE)).map_err(|error| format!("{PAGE}: {error}"))?;
    let mut findings: Vec<String> = named(&text)
        .filter(|path| !root.join(path.trim_end_matches('/')).exists())
        .map(|path| format!("{PAGE} names {path}, which is not there"))
        .collect();
    for directory in directories(&root)? {
        if !text.contains(&format!("{directory}/")) {
            findings.push(format!("{PAGE} does not name {directory}/"));
        }
    }
    findings.extend(arrows(&text));
    for verb in ["PUT", "GET"] {
        let hops =
            section(&text, verb).map_or(0, |part| named(part).filter(|path| path.ends_with(".rs")).count());
        if hops < HOPS {
            findings.push(format!(
                "{PAGE}: a section on a {verb} names {hops} files; hop by hop there are {HOPS} or more"
            ));
        }
    }
    findings.extend(heads(&source::all()?));
    Ok(findings)
}

/// Files that the head of a file names (`Before: …`) and that are nowhere.
fn heads(all: &[Source]) -> Vec<String> {
    let is_there =
        |name: &str| all.iter().any(|source| format!("/{}", source.path).ends_with(&format!("/{name}")));
    let missing = |source: &Source| {
        let head: Vec<&str> = source.raw.lines().take_while(|line| line.starts_with("//!")).collect();
        let head = head.join(" ");
        let named =
            head.split('`').skip(1).step_by(2).filter(|word| word.ends_with(".rs") && !word.contains(' '));
        let named: Vec<String> = named.filter(|name| !is_there(name)).map(str::to_owned).collect();
        named
            .into_iter()
            .map(|name| format!("{}: its head names {name}, which is not there", source.path))
            .collect::<Vec<_>>()
    };
    all.iter().flat_map(missing).collect()
}

/// Paths of the checkout in backticks: `crates/…`, `xtask/…`, `docs/…`, `journeys/…`.
fn named(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2).filter(|word| {
        let tops = ["crates/", "xtask/", "docs/", "journeys/"];
        tops.iter().any(|top| word.starts_with(top)) && !word.contains([' ', '*', '…', '<', '{'])
    })
}

/// `crates/room` and `crates/room/src/module`, as far as they are directories.
fn directories(root: &Path) -> Findings {
    let mut found = Vec::new();
    for room in children(&root.join("crates"))? {
        let modules = children(&root.join("crates").join(&room).join("src"))?;
        for module in modules.iter().filter(|module| *module != "tests") {
            found.push(format!("crates/{room}/src/{module}"));
        }
        found.push(format!("crates/{room}"));
    }
    found.sort();
    Ok(found)
}

/// Directories that hold something git would keep: an empty one is nobody's.
fn children(directory: &Path) -> Findings {
    let failed = |error: std::io::Error| format!("{}: {error}", directory.display());
    let mut names = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let full = std::fs::read_dir(entry.path()).is_ok_and(|mut children| children.next().is_some());
        if full {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    Ok(names)
}

/// Each arrow stands in the page as the gate has it: `cli → node, base`.
fn arrows(text: &str) -> Vec<String> {
    let line = |(from, to): &(&str, &[&str])| match to {
        [] => format!("{from} → nothing"),
        to => format!("{from} → {}", to.join(", ")),
    };
    let lines: Vec<String> = ARROWS.iter().map(line).collect();
    let missing = lines.iter().filter(|line| !text.contains(*line));
    missing.map(|line| format!("{PAGE} does not say `{line}`")).collect()
}

/// From a heading that holds the word to the next heading.
fn section<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        let after = offset + line.len();
        if line.starts_with('#') && line.split(|c: char| !c.is_alphanumeric()).any(|found| found == word) {
            let rest = text.get(after..)?;
            return rest.get(..rest.find("\n#").unwrap_or(rest.len()));
        }
        offset = after;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_names_files_that_are_there() {
        let file = |path: &str, raw: &str| Source::new(path.into(), raw.into());
        let all = [
            file("crates/a/src/one.rs", "//! Before: `two.rs`, `a/src/one.rs`.\n"),
            file("crates/a/src/part.rs", "//! After: `gone.rs`.\n\n// `here.rs`\n"),
        ];
        assert_eq!(
            heads(&all),
            [
                "crates/a/src/one.rs: its head names two.rs, which is not there",
                "crates/a/src/part.rs: its head names gone.rs, which is not there"
            ]
        );
    }

    #[test]
    fn paths_and_sections_are_found() {
        let text = "# Map\n`crates/base/` and `base` and `crates/x/*.rs`\n## A PUT, hop by hop\n`crates/a.rs`\n`xtask/b.rs`\n## Next\n`crates/c.rs`";
        assert_eq!(
            named(text).collect::<Vec<_>>(),
            ["crates/base/", "crates/a.rs", "xtask/b.rs", "crates/c.rs"]
        );
        assert_eq!(section(text, "PUT").map(|part| named(part).count()), Some(2));
        assert_eq!(section(text, "GET"), None);
    }
}
