//! Finding the extents of a segment by their headers.

use std::ops::Range;
use std::sync::Arc;

use crate::StorageError;
use crate::disk::File;

use super::GRAIN;
use super::extent::{Extent, LARGEST, extent_len};

/// Bytes read at once: many small extents, or the header of one large one.
const WINDOW: usize = 64 << 10;

/// A segment of which more grains cannot be read is not looked through: its disk is going, and each try takes long.
const UNREAD: usize = 1024;

/// What is done with an extent.
type Visit<'a> = dyn FnMut(u64, Extent) -> Result<(), StorageError> + 'a;

/// What a scan came to.
pub(crate) struct Scanned {
    /// Where the last extent ends, and what may be one behind it of which the disk cannot read the header now: nothing is
    /// to be written over that.
    pub(crate) end: u64,
    /// The grains that cannot be read: what lies there is not known.
    pub(crate) unread: Vec<u64>,
    /// Where something lies that is neither an extent nor blank.
    pub(crate) strange: Vec<Range<u64>>,
    /// Why it was not looked through to its end.
    pub(crate) gave_up: Option<std::io::Error>,
}

/// Visits the extents of a segment from `from` on, in order, with their offsets. Holes, torn extents and what the disk cannot
/// read are stepped over; more than so much of that is an error.
pub(crate) fn scan(
    file: &Arc<dyn File>,
    salt: &[u8; 16],
    number: u32,
    from: u64,
    visit: &mut Visit<'_>,
) -> Result<Scanned, StorageError> {
    let mut scanned = scan_some(file, salt, number, from, visit)?;
    match scanned.gave_up.take() {
        Some(error) => Err(StorageError::io("scan a payload segment", &error)),
        None => Ok(scanned),
    }
}

/// The same, of a segment that is given up as far as it was looked through.
pub(crate) fn scan_some(
    file: &Arc<dyn File>,
    salt: &[u8; 16],
    number: u32,
    from: u64,
    visit: &mut Visit<'_>,
) -> Result<Scanned, StorageError> {
    let failed = |error: std::io::Error| StorageError::io("scan a payload segment", &error);
    let len = file.len().map_err(failed)?;
    let mut at = from.max(GRAIN);
    let mut scanned = Scanned { end: at, unread: Vec::new(), strange: Vec::new(), gave_up: None };
    let mut window = vec![0; WINDOW];
    let mut held = 0..0;
    // Something before this cannot be read: grain by grain up to there.
    let mut careful = 0;
    while at < len {
        if at < held.start || at + GRAIN > held.end {
            let Some(data) = file.next_data(at).map_err(failed)? else { break };
            at = data & !(GRAIN - 1);
            let most = if at < careful { GRAIN as usize } else { WINDOW };
            match file.read_at(at, window.get_mut(..most).unwrap_or_default()) {
                Ok(0) => break,
                Ok(read) => held = at..at + read as u64,
                Err(_) if at >= careful => {
                    careful = at + WINDOW as u64;
                    continue;
                }
                Err(error) => {
                    scanned.pass_over(at, number, &error);
                    if scanned.unread.len() > UNREAD {
                        (scanned.end, scanned.gave_up) = (len, Some(error));
                        break;
                    }
                    at += GRAIN;
                    continue;
                }
            }
        }
        let bytes =
            window.get((at - held.start) as usize..(held.end - held.start) as usize).unwrap_or_default();
        match Extent::read(bytes, salt, number, at) {
            Some(extent) => {
                let next = at + extent_len(extent.stored);
                visit(at, extent)?;
                (at, scanned.end) = (next, next);
            }
            None => {
                if bytes.iter().take(GRAIN as usize).any(|&byte| byte != 0) {
                    match scanned.strange.last_mut().filter(|last| last.end == at) {
                        Some(last) => last.end = at + GRAIN,
                        None => scanned.strange.push(at..at + GRAIN),
                    }
                }
                at += GRAIN;
            }
        }
    }
    scanned.keep_clear(len);
    Ok(scanned)
}

impl Scanned {
    /// How long an extent is whose header does not read nobody knows: its end may be blank as well.
    fn keep_clear(&mut self, len: u64) {
        if let Some(&last) = self.unread.last()
            && last + GRAIN == self.end
        {
            self.end = (last + extent_len(LARGEST)).min(len);
        }
    }

    /// Behind what is strange as well: an extent of which the header has rotted lies there, or was written in part. What was let go
    /// of before it was noted by its place, and a rebuild would take a later chunk at that place for it.
    pub(crate) fn behind_strange(&self, len: u64) -> u64 {
        let last = self.strange.last().filter(|last| last.end > self.end);
        last.map_or(self.end, |last| (last.end + extent_len(LARGEST)).min(len))
    }

    /// Where something lies of which nobody knows what it is, in order.
    pub(crate) fn unknown(&self) -> Vec<Range<u64>> {
        let unread = self.unread.iter().map(|&at| at..at + GRAIN);
        let mut unknown: Vec<_> = unread.chain(self.strange.iter().cloned()).collect();
        unknown.sort_by_key(|at| at.start);
        unknown
    }

    fn pass_over(&mut self, at: u64, number: u32, error: &std::io::Error) {
        if self.unread.is_empty() {
            tracing::error!(segment = number, at, %error, "part of a segment cannot be read; it is passed over");
        }
        self.unread.push(at);
        self.end = at + GRAIN;
    }
}

/// The parts of a gap between extents that hold none of this, which is in order.
pub(crate) fn parts(gap: Range<u64>, unknown: &[Range<u64>]) -> Vec<Range<u64>> {
    let (mut parts, mut from) = (Vec::new(), gap.start);
    for at in unknown.iter().filter(|at| at.start < gap.end && gap.start < at.end) {
        if from < at.start {
            parts.push(from..at.start);
        }
        from = from.max(at.end);
    }
    if from < gap.end {
        parts.push(from..gap.end);
    }
    parts
}

/// The first extent that begins in `within`; none up to its end or that of the file. What the disk cannot read is passed over.
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
        let read = file.read_at(at, &mut block).unwrap_or_else(|error| {
            tracing::warn!(segment = number, at, %error, "part of the cache cannot be read; it is passed over");
            0
        });
        if let Some(extent) = Extent::read(block.get(..read).unwrap_or_default(), salt, number, at) {
            return Ok(Some((at, extent)));
        }
        at += GRAIN;
    }
    Ok(None)
}
