//! Where the lab's own files lie: scenarios, topologies, systems.

use std::fs;
use std::path::{Path, PathBuf};

/// The lab's own directory: where this was built or, if the checkout has moved since, in the checkout that one stands in.
pub fn home() -> PathBuf {
    let built = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    if built.join("scenarios").is_dir() {
        return built;
    }
    let here = std::env::current_dir().unwrap_or_default();
    here.ancestors().map(|above| above.join("crates/lab")).find(|lab| lab.is_dir()).unwrap_or(built)
}

/// The file that is meant: a path, or a name in one of the lab's own directories.
pub fn find(directory: &str, name: &str) -> Result<PathBuf, String> {
    let direct = Path::new(name);
    if direct.extension().is_some() && direct.is_file() {
        return Ok(direct.to_path_buf());
    }
    let own = home().join(directory).join(name).with_extension("toml");
    if !name.contains('/') && own.is_file() {
        return Ok(own);
    }
    let known: Vec<String> = all(directory).into_iter().map(|(name, _)| name).collect();
    Err(format!("no file and none of the {directory} is called {name:?}; there are {}", known.join(", ")))
}

/// Every file of one of the lab's directories, by name; numbers in names count as numbers.
pub fn all(directory: &str) -> Vec<(String, PathBuf)> {
    let entries = fs::read_dir(home().join(directory)).into_iter().flatten().flatten();
    let files =
        entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|end| end == "toml"));
    let mut named: Vec<(String, PathBuf)> =
        files.filter_map(|path| Some((path.file_stem()?.to_str()?.to_owned(), path))).collect();
    named.sort_by_key(|(name, _)| order(name));
    named
}

fn order(name: &str) -> (String, u64, String) {
    let start = name.find(|c: char| c.is_ascii_digit()).unwrap_or(name.len());
    let (word, rest) = name.split_at(start);
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (number, more) = rest.split_at(end);
    (word.into(), number.parse().unwrap_or(0), more.into())
}
