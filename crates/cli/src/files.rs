//! The few files that the command line reads and writes itself: a demo's notes, admin tokens, logs of sites.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use crate::exit::{Failure, Outcome};

fn failed(path: &Path, error: &std::io::Error) -> Failure {
    Failure::failed(format!("{}: {error}", path.display()))
}

/// That a directory is there and may be looked into.
pub(crate) fn found(directory: &Path) -> Outcome<()> {
    use std::io::ErrorKind::{NotADirectory, NotFound};
    match std::fs::read_dir(directory) {
        Ok(_) => Ok(()),
        Err(error) if matches!(error.kind(), NotFound | NotADirectory) => {
            Err(Failure::usage(format!("{}: no such directory", directory.display())))
        }
        Err(error) => Err(Failure::failed(format!("cannot read {}: {error}", directory.display()))),
    }
}

/// The text of a file; none if there is no such file.
pub(crate) fn read(path: &Path) -> Outcome<Option<String>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(path, &error)),
    }
}

/// Replaces a file that only its owner may read, as a whole or not at all.
pub(crate) fn write_secret(path: &Path, text: &str) -> Outcome<()> {
    let beside = path.with_extension("new");
    let write = || {
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&beside, path)
    };
    write().map_err(|error| failed(path, &error))
}

/// Makes a directory that only its owner enters.
pub(crate) fn directory(path: &Path) -> Outcome<()> {
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|error| failed(path, &error))
}

/// Takes a directory for this process; the lock ends with the file. Refused while another holds it.
pub(crate) fn lock(directory: &Path) -> Outcome<File> {
    let path = directory.join("lock");
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(&path);
    let file = file.map_err(|error| failed(&path, &error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(std::fs::TryLockError::WouldBlock) => {
            Err(Failure::refused(format!("{} is in use by another process", directory.display())))
        }
        Err(std::fs::TryLockError::Error(error)) => Err(failed(&path, &error)),
    }
}

/// Opens a log to append to.
pub(crate) fn log(path: &Path) -> Outcome<File> {
    OpenOptions::new().append(true).create(true).open(path).map_err(|error| failed(path, &error))
}

/// The last lines of a file, `bytes` at most.
pub(crate) fn tail(path: &Path, bytes: u64) -> String {
    let read = || -> std::io::Result<String> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(bytes)))?;
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    };
    // A log that cannot be read is told in place of its lines: the failure it explains matters more.
    read().unwrap_or_else(|error| format!("{}: {error}", path.display()))
}
