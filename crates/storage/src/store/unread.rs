//! Payload segments in which something lay that the disk could not read: looked at again once a round of the scrub has read all
//! else.
//!
//! Why: such a segment stays with all that is dead in it, up to 256 MiB, and only a rebuild of the index takes in what lies there.
//! Where nothing of that is lacked any more (it came back from another site, or nobody wants it) it goes as others do. What is
//! lacked is left to a rebuild: only the journal says what of a segment was let go of, and lies there still where nothing can be punched.
//!
//! Invariant: a segment stays noted while any of it does not read, or holds what is wanted and is not here, whole, elsewhere.

use std::io::ErrorKind;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use super::Store;
use super::changes::load_row;
use crate::StorageError;
use crate::chunks::Key;
use crate::chunks::row::{Area, Place, UNREAD};
use crate::payload::scan::scan_some;

impl Store {
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
