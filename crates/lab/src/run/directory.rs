//! The directory of a result: what stays (result, samples, logs) and what goes (the systems' data).
//!
//! Invariant: data of systems never outlive the run; a run without a result leaves no directory at all.

use std::fs;
use std::path::{Path, PathBuf};

use super::error::RunError;

/// A directory being filled.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    keep: bool,
}

impl Directory {
    /// Makes `name` below `out`; a number is added if it is there already.
    pub(super) fn make(out: &Path, name: &str) -> Result<Self, RunError> {
        fs::create_dir_all(out).map_err(RunError::machine(out.display()))?;
        let mut path = out.join(name);
        let mut number = 1;
        while let Err(error) = fs::create_dir(&path) {
            if error.kind() != std::io::ErrorKind::AlreadyExists || number > 100 {
                return Err(RunError::machine(path.display())(error));
            }
            number += 1;
            path = out.join(format!("{name}-{number}"));
        }
        let path = path.canonicalize().map_err(RunError::machine(path.display()))?;
        let directory = Self { path, keep: false };
        for part in ["csv", "logs", "work"] {
            let part = directory.path.join(part);
            fs::create_dir(&part).map_err(RunError::machine(part.display()))?;
        }
        Ok(directory)
    }

    /// Where the result goes.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// A place for the data of one network's system.
    pub(super) fn work(&self, number: usize) -> Result<PathBuf, RunError> {
        let work = self.path.join("work").join(number.to_string());
        fs::create_dir_all(work.join("logs")).map_err(RunError::machine(work.display()))?;
        Ok(work)
    }

    /// Takes the logs of a place out of it and removes the rest.
    pub(super) fn clear(&self, number: usize) {
        let work = self.path.join("work").join(number.to_string());
        let entries = fs::read_dir(work.join("logs")).into_iter().flatten().flatten();
        for log in entries.filter(|entry| entry.metadata().is_ok_and(|data| data.is_file() && data.len() > 0))
        {
            let name = format!("{number}-{}", log.file_name().to_string_lossy());
            // A log that cannot be kept is missed by nobody but the curious.
            let _ = fs::rename(log.path(), self.path.join("logs").join(name));
        }
        let _ = fs::remove_dir_all(work);
    }

    /// The result is complete: it stays.
    pub(super) fn finish(mut self) -> PathBuf {
        self.keep = true;
        // Gone only if nothing was logged.
        let _ = fs::remove_dir(self.path.join("logs"));
        let _ = fs::remove_dir(self.path.join("csv"));
        self.path.clone()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let gone = if self.keep { self.path.join("work") } else { self.path.clone() };
        let _ = fs::remove_dir_all(gone);
    }
}
