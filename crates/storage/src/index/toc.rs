//! Whether the tables of the index can be opened: the library takes memory for as many parts as a table says it has before it
//! looks at the checksum of what says so.
//!
//! Why: one flipped bit in such a count asks for up to 170 GB, which ends the process, at each start. Invariant: what is refused
//! here is damaged; what is not may be damaged all the same, which the library finds by its checksums.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::StorageError;
use crate::fields::Fields;

/// What ends a table: `SFA!`, a version, a kind of checksum, the checksum, place and length of the list of parts.
const END: u64 = 4 + 1 + 1 + 16 + 8 + 8;
const END_MAGIC: &[u8] = b"SFA!";
/// Of it, between the magic and the place.
const BEFORE_PLACE: usize = 1 + 1 + 16;
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
    let file = File::open(table)?;
    let Some(end) = file.metadata()?.len().checked_sub(END) else { return Ok(false) };
    let (mut last, mut head) = ([0; END as usize], [0; 8]);
    file.read_exact_at(&mut last, end)?;
    let Some((_, place)) =
        last.strip_prefix(END_MAGIC).and_then(|rest| rest.split_first_chunk::<BEFORE_PLACE>())
    else {
        return Ok(false);
    };
    let Some(list) = Fields::of(place).u64() else { return Ok(false) };
    file.read_exact_at(&mut head, list)?;
    let parts = head.strip_prefix(LIST_MAGIC).and_then(|count| Fields::of(count).u32());
    Ok(parts.is_some_and(|parts| u64::from(parts) > end.saturating_sub(list) / PART))
}
