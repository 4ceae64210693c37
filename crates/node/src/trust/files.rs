//! The one place where this crate touches key, trust and configuration files.
//!
//! Invariants: a file is replaced whole or not at all (written beside, synced, renamed, directory synced);
//! secrets have mode 0600 from their first byte, and one that others may read is refused.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "this is the module that reads and writes the few files of a site's directory"
)]

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::TrustError;

/// No configuration or key file is longer.
const FILE_BYTES: u64 = 4 << 20;

fn failed(path: &Path, reason: impl ToString) -> TrustError {
    TrustError::File { path: path.display().to_string(), reason: reason.to_string() }
}

/// Makes a directory (and those above it) that only the owner enters.
pub fn private_directory(path: &Path) -> Result<(), TrustError> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|error| failed(path, error))
}

/// Whether a file is there; who may not look does not know.
pub fn exists(path: &Path) -> Result<bool, TrustError> {
    path.try_exists().map_err(|error| failed(path, error))
}

/// Reads a text file.
pub fn read_text(path: &Path) -> Result<String, TrustError> {
    let file = fs::File::open(path).map_err(|error| failed(path, error))?;
    let mut text = String::new();
    file.take(FILE_BYTES).read_to_string(&mut text).map_err(|error| failed(path, error))?;
    Ok(text)
}

/// Reads a secret text file; refuses one that others than the owner may read.
pub fn read_secret(path: &Path) -> Result<String, TrustError> {
    let mode = fs::metadata(path).map_err(|error| failed(path, error))?.permissions().mode();
    if mode & 0o077 != 0 {
        let mode = mode & 0o777;
        return Err(failed(path, format!("mode {mode:03o} lets others read a secret; chmod 600 it")));
    }
    read_text(path)
}

fn unwritten(path: &Path, error: &std::io::Error) -> TrustError {
    match error.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
            TrustError::Full(path.display().to_string())
        }
        _ => failed(path, error),
    }
}

/// Replaces a text file.
pub fn write_text(path: &Path, text: &str) -> Result<(), TrustError> {
    replace(path, text, 0o644).map_err(|error| unwritten(path, &error))
}

/// Replaces a secret text file.
pub fn write_secret(path: &Path, text: &str) -> Result<(), TrustError> {
    replace(path, text, 0o600).map_err(|error| unwritten(path, &error))
}

fn replace(path: &Path, text: &str, mode: u32) -> std::io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".new");
    let beside = directory.join(name);
    // A leftover of a crash may have another mode: it must not pass it on.
    let _ = fs::remove_file(&beside);
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(&beside)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&beside, path)?;
    fs::File::open(directory)?.sync_all()
}

/// Removes a file, durably; nothing if it is not there.
pub fn remove(path: &Path) -> Result<(), TrustError> {
    let removed = match fs::remove_file(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        removed => removed,
    };
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let synced = removed.and_then(|()| fs::File::open(directory.unwrap_or(Path::new(".")))?.sync_all());
    synced.map_err(|error| failed(path, error))
}

/// Bytes as PEM.
pub fn pem(tag: &str, bytes: &[u8]) -> String {
    let encoded = STANDARD.encode(bytes);
    let mut text = format!("-----BEGIN {tag}-----\n");
    for (at, letter) in encoded.chars().enumerate() {
        if at > 0 && at % 64 == 0 {
            text.push('\n');
        }
        text.push(letter);
    }
    text.push_str(&format!("\n-----END {tag}-----\n"));
    text
}

/// Reads back what [`pem`] gave for this tag.
pub fn from_pem(path: &Path, tag: &str, text: &str) -> Result<Vec<u8>, TrustError> {
    let begin = format!("-----BEGIN {tag}-----");
    let end = format!("-----END {tag}-----");
    let inside = text.split_once(&begin).and_then(|(_, rest)| rest.split_once(&end));
    let (inside, _) = inside.ok_or_else(|| failed(path, format!("holds no {tag}")))?;
    let letters: String = inside.chars().filter(|letter| !letter.is_whitespace()).collect();
    STANDARD.decode(letters).map_err(|error| failed(path, format!("damaged {tag}: {error}")))
}

/// Reads back what several [`pem`] after each other gave for this tag.
pub fn all_from_pem(path: &Path, tag: &str, text: &str) -> Result<Vec<Vec<u8>>, TrustError> {
    let end = format!("-----END {tag}-----");
    let each = text.split_inclusive(&end).filter(|part| !part.trim().is_empty());
    each.map(|part| from_pem(path, tag, part)).collect()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn secrets_are_private_and_public_ones_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("node.key");
        write_secret(&path, "one").unwrap();
        write_secret(&path, "two").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(read_secret(&path).unwrap(), "two");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(read_secret(&path).unwrap_err().to_string().contains("mode 640"));
    }

    #[test]
    fn pem_comes_back_and_damage_is_named() {
        let path = Path::new("x.pem");
        for size in [0, 1, 47, 48, 49, 200] {
            let bytes = vec![0xa5; size];
            assert_eq!(from_pem(path, "T", &pem("T", &bytes)).unwrap(), bytes);
        }
        assert!(from_pem(path, "T", &pem("U", b"x")).unwrap_err().to_string().contains("holds no T"));
        assert!(from_pem(path, "T", &pem("T", b"x").replace('A', "*")).is_err());
        let three = [pem("T", b"x"), pem("T", b"yy"), pem("T", b"zzz")].concat();
        assert_eq!(all_from_pem(path, "T", &three).unwrap(), [&b"x"[..], b"yy", b"zzz"]);
        assert_eq!(all_from_pem(path, "T", "\n").unwrap(), Vec::<Vec<u8>>::new());
        assert!(all_from_pem(path, "T", &three[..three.len() - 5]).is_err(), "torn");
    }
}
