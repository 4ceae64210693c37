//! Files that are written by a command are as the command would write them now.

use super::Findings;
use crate::{bans, docs, limits, run};

/// The clippy.toml files against the table of bans.
pub(crate) fn bans() -> Findings {
    compare(bans::files())
}

/// The table of limits against its source.
pub(crate) fn limits() -> Findings {
    compare(vec![limits::file()?])
}

/// The references of the command line and of the configuration against the binary.
pub(crate) fn references() -> Findings {
    compare(docs::references()?)
}

fn compare(files: Vec<(String, String)>) -> Findings {
    let root = run::root();
    let differs = |(path, content): &(String, String)| {
        std::fs::read_to_string(root.join(path)).map_or(true, |found| found != *content)
    };
    let stale = files.iter().filter(|file| differs(file));
    Ok(stale.map(|(path, _)| format!("{path} is not up to date: run `cargo xtask docs`")).collect())
}
