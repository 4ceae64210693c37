//! Finding the extents of a segment by their headers.

use std::ops::Range;
use std::sync::Arc;

use crate::StorageError;
use crate::disk::File;

use super::GRAIN;
use super::extent::{Extent, extent_len};

/// Bytes read at once: many small extents, or the header of one large one.
const WINDOW: usize = 64 << 10;

/// Visits the extents of a segment from `from` on, in order, with their offsets; returns where the last ends.
/// Holes and torn extents are stepped over.
pub(crate) fn scan(
    file: &Arc<dyn File>,
    salt: &[u8; 16],
    number: u32,
    from: u64,
    visit: &mut dyn FnMut(u64, Extent) -> Result<(), StorageError>,
) -> Result<u64, StorageError> {
    let failed = |error: std::io::Error| StorageError::io("scan a payload segment", &error);
    let len = file.len().map_err(failed)?;
    let mut at = from.max(GRAIN);
    let mut end = at;
    let mut window = vec![0; WINDOW];
    let mut held = 0..0;
    while at < len {
        if at < held.start || at + GRAIN > held.end {
            let Some(data) = file.next_data(at).map_err(failed)? else { break };
            at = data & !(GRAIN - 1);
            let read = file.read_at(at, &mut window).map_err(failed)?;
            held = at..at + read as u64;
            if read == 0 {
                break;
            }
        }
        let bytes =
            window.get((at - held.start) as usize..(held.end - held.start) as usize).unwrap_or_default();
        match Extent::read(bytes, salt, number, at) {
            Some(extent) => {
                let next = at + extent_len(extent.stored);
                visit(at, extent)?;
                (at, end) = (next, next);
            }
            None => at += GRAIN,
        }
    }
    Ok(end)
}

/// The first extent that begins in `within`; none up to its end or that of the file.
pub(crate) fn next(
    file: &Arc<dyn File>,
    salt: &[u8; 16],
    number: u32,
    within: Range<u64>,
) -> Result<Option<(u64, Extent)>, StorageError> {
    let failed = |error: std::io::Error| StorageError::io("look through the cache", &error);
    let end = file.len().map_err(failed)?.min(within.end);
    let mut at = within.start.max(GRAIN).next_multiple_of(GRAIN);
    let mut block = vec![0; GRAIN as usize];
    while at < end {
        let Some(data) = file.next_data(at).map_err(failed)?.filter(|data| *data < end) else { break };
        at = data & !(GRAIN - 1);
        let read = file.read_at(at, &mut block).map_err(failed)?;
        if let Some(extent) = Extent::read(block.get(..read).unwrap_or_default(), salt, number, at) {
            return Ok(Some((at, extent)));
        }
        at += GRAIN;
    }
    Ok(None)
}
