//! Payload segments in which something lay that the disk could not read: looked at again once a round of the scrub has read all
//! else.
//!
//! Why: such a segment stays with all that is dead in it, up to 256 MiB, and only a rebuild of the index takes in what lies there.
//! Where nothing of that is lacked any more (it came back from another site, or nobody wants it) it goes as others do. What is
//! lacked is left to a rebuild: only the journal says what of a segment was let go of, and lies there still where nothing can be punched.
//!
//! Invariant: a segment stays noted while any of it does not read, or holds what is wanted and is not here, whole, elsewhere.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::ops::Range;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use super::changes::load_row;
use super::{DamagedChunk, Recovery, Store, Strange};
use crate::StorageError;
use crate::chunks::Key;
use crate::chunks::row::{Area, Place, UNREAD};
use crate::payload::scan::scan_some;

impl Store {
    /// What is kept though it could not be read counts for nobody until it does: those on the list of the scrub do not in later lives
    /// either. What the list has no room for leaves the index, which notes its segment instead.
    pub(super) fn doubt(&self, rotten: &[DamagedChunk]) -> Result<(), StorageError> {
        if rotten.is_empty() {
            return Ok(());
        }
        let noted = self.note_damaged(rotten.to_vec());
        if let Err(error) = &noted {
            // On a full disk the list is in memory until there is room: a start frees it, and nothing else does.
            tracing::warn!(%error, "what could not be read at the start was not written down");
        }
        let listed = if noted.is_ok() { self.scrub_listed() } else { BTreeSet::new() };
        let view = self.index.read();
        let mut unlisted = Vec::new();
        for chunk in rotten {
            let key = (chunk.domain, chunk.id);
            let Some(place) = load_row(&*view, key)?.place else { continue };
            self.live.lock().hurts(key);
            if place.area == Area::Payload && !listed.contains(&key) {
                unlisted.push((key, place.segment));
            }
        }
        drop(view);
        if unlisted.is_empty() { Ok(()) } else { self.leave_unread(&unlisted) }
    }

    /// Takes what could not be read out of the index, and keeps where it lies.
    fn leave_unread(&self, chunks: &[(Key, u32)]) -> Result<(), StorageError> {
        let mut sweep = self.sweep.lock().unwrap_or_else(PoisonError::into_inner);
        let mut unread = sweep.unread.clone();
        unread.extend(chunks.iter().map(|(_, segment)| *segment));
        let noted: Vec<u8> = unread.iter().flat_map(|number| number.to_le_bytes()).collect();
        self.own_group(|_, changes, _| {
            for (key, _) in chunks {
                changes.unplace(*key, || self.children_or_none(*key), false)?;
            }
            changes.note(UNREAD, Some(noted));
            Ok(Some(()))
        })?;
        self.unread.store(unread.len() as u64, Ordering::Relaxed);
        sweep.unread = unread;
        drop(sweep);
        if let Err(error) = self.checkpoint() {
            tracing::warn!(%error, "the index says of chunks that could not be read that they are here until it is flushed");
        }
        Ok(())
    }

    /// Lets go of the notes of segments that read again and in which nothing is lacked.
    pub(super) fn look_at_unread(&self) -> Result<(), StorageError> {
        let noted = self.sweep.lock().unwrap_or_else(PoisonError::into_inner).unread.clone();
        for number in noted {
            if self.may_hold_what_is_lacked(number)? {
                continue;
            }
            tracing::info!(
                segment = number,
                "a payload segment that could not be read holds nothing that is lacked"
            );
            let mut sweep = self.sweep.lock().unwrap_or_else(PoisonError::into_inner);
            let left = sweep.unread.iter().filter(|other| **other != number);
            let left: Vec<u8> = left.flat_map(|other| other.to_le_bytes()).collect();
            self.own_group(|_, changes, _| {
                changes.note(UNREAD, (!left.is_empty()).then_some(left));
                Ok(Some(()))
            })?;
            sweep.unread.remove(&number);
            self.unread.store(sweep.unread.len() as u64, Ordering::Relaxed);
        }
        Ok(())
    }

    fn may_hold_what_is_lacked(&self, number: u32) -> Result<bool, StorageError> {
        let file = match self.files.get(Area::Payload, number) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(StorageError::io("open a payload segment", &error)),
        };
        let len = file.len().map_err(|error| StorageError::io("open a payload segment", &error))?;
        // What lies in memory says nothing about the disk.
        file.release(0, len);
        let mut lacks = false;
        let scanned = scan_some(&file, &self.salt, number, 0, &mut |offset, extent| {
            let place = Place { area: Area::Payload, segment: number, offset, crc: 0 };
            lacks |= self.is_lacked((extent.domain, extent.id), place)?;
            Ok(())
        })?;
        Ok(lacks || !scanned.unread.is_empty() || scanned.gave_up.is_some())
    }

    /// Whether a chunk that lies there is wanted, and the index knows no place where it lies whole and to stay.
    fn is_lacked(&self, key: Key, place: Place) -> Result<bool, StorageError> {
        let row = load_row(&self.view(), key)?;
        if row.place == Some(place) || row.references <= 0 {
            return Ok(false);
        }
        let is_kept = row.place.is_some_and(|place| place.area != Area::Cache);
        Ok(!is_kept || self.live.lock().damaged.contains(&key))
    }
}

/// What may have been a chunk is not here any more: that is said, for it may be wanted. What a power cut tore while it was written
/// looks the same, for as long as its segment stays.
pub(super) fn tell_strange(segment: u32, parts: &[Range<u64>], recovery: &mut Recovery) {
    let (Some(first), Some(last)) = (parts.first(), parts.last()) else { return };
    tracing::warn!(
        segment,
        from = first.start,
        to = last.end,
        parts = parts.len(),
        "part of a payload segment is no chunk: the head of one has rotted, or a power cut tore what was being written; if it was \
        wanted it is not here, and is asked of other sites when it is read"
    );
    recovery.strange.extend(parts.iter().map(|part| Strange { segment, from: part.start, to: part.end }));
}
