//! Whether the tables of the index can be opened: the library takes memory for as many parts as a table says it has before it
//! looks at the checksum of what says so.
//!
//! Why: one flipped bit in such a count asks for up to 170 GB, which ends the process, at each start. Invariant: what is refused
//! here is damaged; what is not may be damaged all the same, which the library finds by its checksums.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use crate::StorageError;
use crate::fields::Fields;

/// What ends a table: `SFA!`, a version, a kind of checksum, the checksum, place and length of the list of parts.
const END: u64 = 4 + 1 + 1 + 16 + 8 + 8;
const END_MAGIC: &[u8] = b"SFA!";
/// What the list begins with, before how many there are.
const LIST_MAGIC: &[u8] = b"TOC!";
/// A part takes at least a place, a length and the length of its name.
const PART: u64 = 8 + 8 + 2;

/// Looks at every table of this folder.
pub(super) fn check(tables: &Path) -> Result<(), StorageError> {
    for entry in std::fs::read_dir(tables).into_iter().flatten().flatten() {
        // What cannot be read, or is no table, says the library; one that a crash left behind it never reads.
        if is_too_long(&entry.path()).unwrap_or(false) {
            let name = entry.file_name();
            return Err(StorageError::Index(format!(
                "table {} says that it has more parts than fit",
                name.display()
            )));
        }
    }
    Ok(())
}

/// Whether a table claims more parts than there is room for between its list and its end.
fn is_too_long(table: &Path) -> std::io::Result<bool> {
    let mut file = File::open(table)?;
    let Some(end) = file.metadata()?.len().checked_sub(END) else { return Ok(false) };
    let last: [u8; END as usize] = read_at(&mut file, end)?;
    let mut fields = Fields::of(&last[22..]);
    let Some(list) = fields.u64().filter(|_| last.starts_with(END_MAGIC)) else { return Ok(false) };
    let head: [u8; 8] = read_at(&mut file, list)?;
    let Some((count, magic)) = head.split_last_chunk::<4>().map(|(magic, count)| (count, magic)) else {
        return Ok(false);
    };
    let parts = u64::from(u32::from_le_bytes(*count));
    Ok(magic == LIST_MAGIC && parts > end.saturating_sub(list) / PART)
}

fn read_at<const N: usize>(file: &mut File, at: u64) -> std::io::Result<[u8; N]> {
    let mut bytes = [0; N];
    file.seek(SeekFrom::Start(at))?;
    file.read_exact(&mut bytes)?;
    Ok(bytes)
}
