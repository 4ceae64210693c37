//! A segment that could not be written is not written again by later lives: one dead spot of a card would else stop each of
//! them at its first write.
//!
//! An empty file beside the store says which; it is gone once segments behind that one are in use. Where not even its name can be
//! written the next life tries the same place, and stops there.

use std::collections::BTreeSet;
use std::io::ErrorKind;

use crate::chunks::row::Area;
use crate::disk::Disk;

/// How the names of those files begin; the folder and the number of the segment follow.
const PREFIX: &str = "unwritable-";

fn name_of(area: Area, number: u32) -> String {
    format!("{PREFIX}{}-{number}", area.folder())
}

/// The segments of a class that were noted.
pub(super) fn noted(disk: &dyn Disk, area: Area) -> BTreeSet<u32> {
    // Where the directory cannot be listed the start fails elsewhere.
    let names = disk.list(".").unwrap_or_default();
    let number = |name: &String| {
        name.strip_prefix(PREFIX)?.strip_prefix(area.folder())?.strip_prefix('-')?.parse().ok()
    };
    names.iter().filter_map(number).collect()
}

/// Whoever starts next goes on in another segment.
pub(super) fn note(disk: &dyn Disk, area: Area, number: u32) {
    let noted = match disk.create(&name_of(area, number), 0) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        _ => disk.sync_dir("."),
    };
    if let Err(error) = noted {
        let area = area.folder();
        tracing::warn!(area, number, %error, "it was not noted that a segment cannot be written: the next start tries it again");
    }
}

/// Segments behind these are in use: nobody would write to them again.
pub(super) fn forget(disk: &dyn Disk, area: Area, before: u32) {
    for number in noted(disk, area).range(..before) {
        if let Err(error) = disk.remove(&name_of(area, *number)) {
            tracing::warn!(number, %error, "the note of a segment that could not be written stays");
        }
    }
}
