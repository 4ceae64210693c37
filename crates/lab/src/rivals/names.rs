//! Which content id a key has: rivals that name objects by content leave it to their users to remember.
//!
//! Clients of one run share a directory; each appends what it wrote to a file of its own and reads the others'
//! when it misses a key. In the papers' runs the benchmark handed the ids over in the same way.
//! Invariant: a line is written whole, by one write, so that a reader sees it or not.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Ending of the files.
const ENDING: &str = "names";

/// The ids of keys.
#[derive(Debug)]
pub(super) struct Names {
    directory: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    file: File,
    known: BTreeMap<(String, String), String>,
}

impl Names {
    /// Opens a directory, which is made if it is not there.
    pub(super) fn open(directory: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(directory)?;
        let mut number = 0_u32;
        let file = loop {
            let path = directory.join(format!("{}-{number}.{ENDING}", std::process::id()));
            match OpenOptions::new().create_new(true).append(true).open(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
                opened => break opened?,
            }
        };
        let state = Mutex::new(State { file, known: BTreeMap::new() });
        Ok(Self { directory: directory.to_path_buf(), state })
    }

    /// Remembers the id of a key.
    pub(super) fn put(&self, bucket: &str, key: &str, id: &str) -> io::Result<()> {
        let mut state = self.state();
        let line = serde_json::to_string(&(bucket, key, id))? + "\n";
        state.file.write_all(line.as_bytes())?;
        state.known.insert((bucket.to_owned(), key.to_owned()), id.to_owned());
        Ok(())
    }

    /// The id of a key, if anybody wrote it.
    pub(super) fn get(&self, bucket: &str, key: &str) -> io::Result<Option<String>> {
        let mut state = self.state();
        let wanted = (bucket.to_owned(), key.to_owned());
        if !state.known.contains_key(&wanted) {
            self.read_all(&mut state)?;
        }
        Ok(state.known.get(&wanted).cloned())
    }

    fn read_all(&self, state: &mut State) -> io::Result<()> {
        for entry in std::fs::read_dir(&self.directory)? {
            let path = entry?.path();
            if path.extension().is_none_or(|ending| ending != ENDING) {
                continue;
            }
            let text = std::fs::read_to_string(&path)?;
            let lines = text.lines().filter_map(|line| serde_json::from_str(line).ok());
            for (bucket, key, id) in lines {
                let known: (String, String) = (bucket, key);
                // What this client wrote itself is newer than what it once noted.
                state.known.entry(known).or_insert(id);
            }
        }
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing is left half done under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn what_one_client_wrote_another_finds() {
        let directory = tempfile::tempdir().unwrap();
        let writer = Names::open(directory.path()).unwrap();
        let reader = Names::open(directory.path()).unwrap();
        assert_eq!(reader.get("b", "k 1").unwrap(), None);
        writer.put("b", "k 1", "bafy1").unwrap();
        assert_eq!(reader.get("b", "k 1").unwrap().as_deref(), Some("bafy1"));
        assert_eq!(reader.get("other", "k 1").unwrap(), None);
        writer.put("b", "k 1", "bafy2").unwrap();
        assert_eq!(writer.get("b", "k 1").unwrap().as_deref(), Some("bafy2"));
    }
}
