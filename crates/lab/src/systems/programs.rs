//! Where the programs of a system lie on this machine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::error::SystemError;
use super::file::SystemFile;
use super::template::Values;

/// Looked through besides PATH: Debian keeps servers there, and PATH of an ordinary user does not name it.
const MORE_PLACES: [&str; 2] = ["/usr/local/sbin", "/usr/sbin"];

/// The first candidate of each program that is there.
pub(super) fn find(system: &SystemFile, values: &Values) -> Result<BTreeMap<String, PathBuf>, SystemError> {
    let mut found = BTreeMap::new();
    for (name, candidates) in &system.programs {
        let in_file = |unknown: super::template::Unknown| SystemError::File {
            file: system.path.display().to_string(),
            reason: unknown.0,
        };
        let candidates = values.fill_all(candidates, 0).map_err(in_file)?;
        let candidates: Vec<String> = candidates.into_iter().filter(|text| !text.is_empty()).collect();
        let path = candidates.iter().find_map(|candidate| locate(candidate));
        let missing = || SystemError::NoProgram {
            system: system.name.clone(),
            program: name.clone(),
            tried: candidates.join(", "),
            hint: system.install.as_ref().map_or_else(String::new, |how| format!("; {how}")),
        };
        found.insert(name.clone(), path.ok_or_else(missing)?);
    }
    Ok(found)
}

/// A file that can be run, by path or by name.
fn locate(candidate: &str) -> Option<PathBuf> {
    if candidate.contains('/') {
        let path = std::path::absolute(candidate).ok()?;
        return is_program(&path).then_some(path);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).chain(MORE_PLACES.map(PathBuf::from));
    places.map(|place| place.join(candidate)).find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// Places of this checkout, as placeholders.
pub(super) fn places(file: &Path) -> BTreeMap<String, String> {
    let file = std::path::absolute(file).unwrap_or_else(|_| file.to_path_buf());
    let beside = file.parent().unwrap_or(Path::new("/")).to_path_buf();
    let root = file.ancestors().find(|place| place.join("Cargo.lock").is_file()).unwrap_or(&beside);
    let lab = std::env::current_exe().ok().and_then(|lab| lab.parent().map(Path::to_path_buf));
    let rivals = std::env::var_os("SKERRY_RIVALS").map_or_else(|| root.join("target/rivals"), PathBuf::from);
    let places = [
        ("system_dir", beside.clone()),
        ("root", root.to_path_buf()),
        ("lab", lab.unwrap_or_else(|| root.join("target/release"))),
        ("rivals", rivals),
    ];
    places.into_iter().map(|(name, path)| (name.to_owned(), path.display().to_string())).collect()
}
