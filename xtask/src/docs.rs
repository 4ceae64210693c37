//! `cargo xtask docs`: writes what is derived: the clippy.toml files, the table of limits and the two references.

use crate::{bans, limits, run};

/// The references, as the binary prints them.
pub(crate) fn references() -> Result<Vec<(String, String)>, String> {
    ["cli", "configuration"]
        .into_iter()
        .map(|page| {
            let arguments =
                ["run", "--quiet", "--locked", "--package", "skerry-cli", "--", "reference", page];
            Ok((format!("docs/{page}.md"), run::read(&mut run::cargo(&arguments))?))
        })
        .collect()
}

/// The verb.
pub(crate) fn write() -> Result<(), String> {
    let mut files = bans::files();
    put(&files)?;
    put(&[limits::file()?])?;
    files = references()?;
    put(&files)
}

fn put(files: &[(String, String)]) -> Result<(), String> {
    for (path, content) in files {
        std::fs::write(run::root().join(path), content).map_err(|error| format!("{path}: {error}"))?;
        println!("wrote {path}");
    }
    Ok(())
}
