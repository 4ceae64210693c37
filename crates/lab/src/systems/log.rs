//! The end of a log, for messages.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

/// How much of a log is read for its end.
const TAIL_BYTES: u64 = 8192;
/// How many lines of it are shown.
const TAIL_LINES: usize = 15;

/// The last lines of a file, indented; empty if there are none.
pub(crate) fn tail(path: &Path) -> String {
    let Ok(mut file) = File::open(path) else { return String::new() };
    let length = file.metadata().map_or(0, |metadata| metadata.len());
    let mut bytes = Vec::new();
    let from = SeekFrom::Start(length.saturating_sub(TAIL_BYTES));
    // A log that cannot be read says as little as an empty one.
    if file.seek(from).and_then(|_| file.take(TAIL_BYTES).read_to_end(&mut bytes)).is_err() {
        return String::new();
    }
    let text = String::from_utf8_lossy(&bytes);
    let mut lines: Vec<String> =
        text.lines().rev().take(TAIL_LINES).map(|line| format!("    {line}")).collect();
    lines.reverse();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn the_end_of_a_long_log_is_its_last_lines() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let lines: Vec<String> = (0..5000).map(|n| format!("line {n}")).collect();
        std::fs::write(&path, lines.join("\n")).unwrap();
        let tail = tail(&path);
        assert_eq!(tail.lines().count(), TAIL_LINES);
        assert!(tail.ends_with("    line 4999"), "{tail}");
        assert_eq!(super::tail(&directory.path().join("none")), "");
    }
}
